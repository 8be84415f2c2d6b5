"""Flags that are given a value, as kubectl takes them: ``--wait=false``, ``-w=false``, ``--all=true``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

from typer.core import TyperArgument, TyperOption

from syncpod.cli.failure import BadInput

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
"""The words that Go's strconv.ParseBool takes."""


def option_of(command: Any, word: str) -> Any:
    """Return the option of this name, or None; for several letters after one dash, ``-it``, that of the last."""
    names = {word} if word.startswith("--") else {word, f"-{word[-1:]}"}
    for one in command.params:
        if isinstance(one, TyperOption) and names & {*one.opts, *one.secondary_opts}:
            return one
    return None


def is_false(value: str) -> bool:
    """Return whether a flag with this value is not set."""
    return value in _FALSE


def without_values(command: Any, words: Sequence[str]) -> list[str]:
    """Return a command line with its flags rewritten without values: ``--no-wait`` for ``--wait=false``.

    A false flag without such an opposite is left out. Values of options, and words after ``--``, stay as they are.
    Raises BadInput for a value that is neither true nor false.
    """
    found: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*found, word, *left]
        name, equals, value = word.partition("=")
        option = option_of(command, name) if word.startswith("-") else None
        if option is not None and option.is_flag and equals:
            if not name.startswith("--"):  # ``-it=false``: the value is that of the last letter
                found += [name[:-1]] if len(name) > 2 else []
                name = f"-{name[-1]}"
            found = _set(option, name, value, found)
            continue
        found.append(word)
        if option is not None and not option.is_flag and not equals and left:
            found.append(left.pop(0))
    return found


def require_dashes(command: Any, words: Sequence[str], path: str) -> None:
    """Raise BadInput for options behind another program's command, ``exec web ls -d /``, without ``--`` before it.

    kubectl takes no such command without ``--``. They would be read as options of `path`, such as ``syncpod exec``.
    """
    takes_another = any(isinstance(one, TyperArgument) and "-- " in (one.metavar or "") for one in command.params)
    if not takes_another or "--" in words:
        return
    at = _beyond_first(command, words)
    own, others = words[:at], words[at:]
    if any(len(word) > 1 and word.startswith("-") for word in others):
        raise BadInput(
            f"write -- before the command, since it has options: {path} {shlex.join(own)} -- {shlex.join(others)} "
            f"(those of `{path}` come before it)"
        )


def _beyond_first(command: Any, words: Sequence[str]) -> int:
    """Return where the second word is that is neither an option nor the value of one."""
    seen = at = 0
    while at < len(words):
        name, equals, _ = words[at].partition("=")
        if not words[at].startswith("-"):
            seen += 1
            if seen > 1:
                break
        elif (option := option_of(command, name)) is not None and not option.is_flag and not equals:
            at += 1
        at += 1
    return at


def _set(option: Any, name: str, value: str, before: list[str]) -> list[str]:
    if value not in _TRUE | _FALSE:
        raise BadInput(f"{name}: must be true or false, not {value!r}")
    if value in _TRUE:
        return [*before, name]
    opposites = option.opts if name in option.secondary_opts else option.secondary_opts
    return [*before, opposites[0]] if opposites else [word for word in before if word not in option.opts]
