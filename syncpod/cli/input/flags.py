"""Reads a command line: flags with values, as in kubectl (``--wait=false``), and text values without pydantic."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Sequence
from typing import Any, Final

from typer.core import TyperArgument, TyperOption

from syncpod.cli.failure import BadInput

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
"""The words that Go's strconv.ParseBool takes."""
_PARSER = "_runtime_param"
"""The attribute in which typer (from 0.26 on) keeps a parameter's parser; None until the parser is built.

Parameters of a typer without this attribute are left unchanged."""


def option_of(command: Any, word: str) -> Any:
    """Return the option of this name, None if there is none.

    For letters after one dash (``-it``), the last one counts.
    """
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
    """Raise BadInput if the program to run has options, but is not behind a ``--``: ``exec web ls -d /``.

    Its options would be read as those of `path`, such as ``syncpod exec``. kubectl requires the ``--`` too.
    """
    takes_another = any(isinstance(one, TyperArgument) and "-- " in (one.metavar or "") for one in command.params)
    if not takes_another or "--" in words:
        return
    at = _beyond_first(command, words)
    if not _has_options(words[at:]):
        return
    own, others = _parted(command, words[at:])
    right = f"{path} {shlex.join([*words[:at], *own])} -- {shlex.join(others)}"
    if _has_options(others):
        raise BadInput(f"write -- before the command, since it has options: {right} (those of `{path}` come before it)")
    raise BadInput(f"write the command last, behind --: {right}")


def _has_options(words: Sequence[str]) -> bool:
    return any(len(word) > 1 and word.startswith("-") for word in words)


def _parted(command: Any, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that are our own options, with their values, and the others, which are the program to run.

    Unless an option with our long name is among them, all may be of the program: ``ls -l``.
    """
    own: list[str] = []
    others: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        option = option_of(command, name) if _has_options([word]) else None
        takes_next = option is not None and not option.is_flag and not equals
        if option is None or (takes_next and _has_options(left[:1])):
            others.append(word)
        else:
            own += [word, *left[: int(takes_next)]]
            del left[: int(takes_next)]
    return (own, others) if any(word.startswith("--") for word in own) else ([], list(words))


def _beyond_first(command: Any, words: Sequence[str]) -> int:
    """Return the index of the second word that is neither an option nor an option's value."""
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


def taken_plainly(parameters: list[Any]) -> list[Any]:
    """Return a command's parameters, changed so that a value which already has the right type is not parsed.

    typer has pydantic check every value. Even for plain texts, importing pydantic and building a parser costs 60 ms.
    """
    for each in parameters:
        if getattr(each, _PARSER, each) is None:
            setattr(each, _PARSER, _Plain())
    return parameters


class _Plain:
    """Takes the place of typer's parser of a parameter, until a value needs that parser."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as typer's parser would. Raises typer.BadParameter."""
        wanted = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if wanted in (str, int, bool) and type(value) is wanted:
            return value
        if wanted == list[str] and type(value) in (list, tuple) and all(type(one) is str for one in value):
            return list(value)
        setattr(param, _PARSER, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def listed(given: Any) -> Any:
    """Return the sources of all ``-f``, each of which may list several with commas; None stays as it is.

    Mirrors pflag's StringSlice: a list is a line of CSV, so that a name with a comma stands in double quotes. An empty
    source, as that of a shell's unset variable, is refused: it would be the current directory. Raises BadInput.
    """
    if not given:
        return given
    sources = [source for text in given for source in _split(text)]
    if "" in sources:
        raise BadInput("-f: the name of a file is missing")
    return sources


def _split(text: str) -> list[str]:
    if "," not in text and '"' not in text:
        return [text]

    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as wrong:
        raise BadInput(f"-f: {text!r}: {wrong}") from None
