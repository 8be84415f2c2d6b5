"""Candidates for completion: commands, flags, their values, and the names of this node's or the fleet's objects.

They are derived from the commands' own flags, arguments and metavars, so a new command needs no change here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from typer.core import TyperArgument, TyperGroup, TyperOption

from syncpod.cli.input.flags import is_false, option_of
from syncpod.cli.input.kind_words import NODE_WORDS, NODES, OBJECTS, POD_WORDS, PODS, WORKLOADS
from syncpod.cli.machine import names_on_disk
from syncpod.cli.manual import table_of
from syncpod.fleet.workload_traits import KINDS, TEMPLATED

FILES: Final = ":files"
"""Returned in place of candidates: the shell is to complete paths."""

_PATHS: Final = frozenset({"FILE|DIR|-", "FILE", "DIR", "PATH", "SOCKET", "[KEY=]FILE|DIR", "SRC", "DST"})
_KINDS: Final = ("pods", "configmaps", "secrets")
_OF_ORPHANS: Final = ("adopt", "prune")
"""Commands for pods without a workflow, unless ``--force`` is given."""
_OF_NODES: Final = ("get", "describe")
"""Commands for several kinds that also take nodes."""
_WORKLOADS: Final = tuple(KINDS[kind].words[1] for kind in TEMPLATED)
_KINDS_OF_FLEET: Final = ("pods", *_WORKLOADS, "configmaps", "secrets")
_IN_FLEET: Final = {**PODS, **WORKLOADS, **NODES, **OBJECTS}
"""The kinds of a fleet by word."""
_GOALS: Final = ("condition=Ready", "delete", "create", "jsonpath=")
_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


@dataclass
class _Line:
    """The words before the one to complete."""

    values: dict[str, str]
    """The last value of each option, by option."""
    words: list[str]
    """The arguments after the command's name."""
    is_after_dashes: bool = False
    is_of_fleet: bool = False

    @property
    def namespace(self) -> str:
        return self.values.get("--namespace") or "default"

    @property
    def scope(self) -> str | None:
        """The namespace; None = all."""
        return None if "--all-namespaces" in self.values else self.namespace

    @property
    def pods(self) -> list[str]:
        """The named pods."""
        return [word.rpartition("/")[2] for word in self.words if word not in POD_WORDS]


def candidates(program: Any, typed: Sequence[str]) -> list[str]:
    """Return the candidates for the last word of `typed`, the command line without the program's name.

    Each begins with that word. The result is [FILES] if a path belongs there, and [] if there are no candidates.
    """
    words, beginning = _rejoined(typed)
    command, is_of_fleet = program, words[:1] == ["fleet"]
    while words and isinstance(command, TyperGroup) and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    line, pending = _read(command, words)
    line.is_of_fleet = is_of_fleet
    if line.is_after_dashes:
        return [FILES]
    if pending is not None:
        return _starting(beginning, _values(pending, line))
    flag, equals, value = beginning.partition("=")
    if equals and flag.startswith("--"):
        option = option_of(command, flag)
        found = _starting(value, _values(option, line)) if option is not None else []
        return found if found == [FILES] else [f"{flag}={one}" for one in found]
    if beginning.startswith("-"):
        return _starting(beginning, _flags(command, line))
    if isinstance(command, TyperGroup):
        if line.words:  # no command of ours
            return []
        return _starting(beginning, list(table_of(command)))
    return _starting(beginning, _words(command, line, beginning))


def _rejoined(typed: Sequence[str]) -> tuple[list[str], str]:
    """Return the words before the last, and the last; joins ``--flag=value``, which bash splits into three words."""
    words = list(typed)
    while "=" in words[1:]:
        at = words.index("=", 1)
        if not words[at - 1].startswith("--"):
            break
        words[at - 1 : at + 2] = ["".join(words[at - 1 : at + 2])]
    return words[:-1], words[-1] if words else ""


def _read(command: Any, words: Sequence[str]) -> tuple[_Line, Any]:
    """Sort words into options and arguments; also return the option that still needs a value, if any."""
    line = _Line({}, [])
    pending = None
    for word in words:
        if pending is not None:
            line.values[pending.opts[0]] = word
            pending = None
        elif word == "--":
            line.is_after_dashes = True
            break
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            option = option_of(command, name)
            if option is None:
                continue
            if option.is_flag and is_false(value):
                line.values.pop(option.opts[0], None)
            elif equals or option.is_flag:
                line.values[option.opts[0]] = value
            else:
                pending = option
        else:
            line.words.append(word)
    return line, pending


def _flags(command: Any, line: _Line) -> Iterable[str]:
    for one in command.params:
        if isinstance(one, TyperOption) and not one.hidden and (one.multiple or one.opts[0] not in line.values):
            yield from (name for name in (*one.opts, *one.secondary_opts) if name.startswith("--"))
    yield "--help"


def _values(option: Any, line: _Line) -> Iterable[str]:
    """Return the values of an option, by its name and its metavar."""
    name, metavar = option.opts[0], option.metavar or ""
    if option.is_flag:
        return ("true", "false")
    sources: dict[str, Callable[[], Iterable[str]]] = {
        "--namespace": lambda: _namespaces(line),
        "--node": lambda: _names(line, "Node"),
        "--container": lambda: _containers(line),
        "--target": lambda: _containers(line),
    }
    if name in sources:
        return sources[name]()
    if name == "--for":
        return _GOALS if "condition" in metavar else (f"pod/{pod}" for pod in names_on_disk.pods(line.namespace))
    if metavar in _PATHS:
        return (FILES,)
    choices = [_beginning(one) for one in metavar.replace(",", "|").split("|")]
    return choices if len(choices) > 1 and all(set(one.removesuffix("=")) <= _WORDS for one in choices) else ()


def _beginning(choice: str) -> str:
    """Return the fixed part of a choice: ``jsonpath=`` of ``jsonpath='{PATH}'``."""
    word, equals, _ = choice.partition("=")
    return word + equals


def _words(command: Any, line: _Line, beginning: str) -> Iterable[str]:
    """Return the candidates for the next argument, by its metavar."""
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    if not arguments:
        return ()
    at = min(len(line.words), len(arguments) - 1)
    metavar = arguments[at].metavar or ""
    if at > 0 and metavar.startswith("--"):
        return ("--",)
    if metavar in _PATHS:
        return (FILES,)
    if line.is_of_fleet and metavar in ("KIND NAME", "KIND/NAME", "POD"):
        return _of_fleet(command, line, beginning, metavar)
    if metavar == "KIND NAME":
        return _things(line, with_nodes=command.name in _OF_NODES)
    if metavar == "NODE":
        return [node for node in _names(line, "Node") if node not in line.words]
    if metavar.startswith("POD"):
        return _pods(line, orphans=command.name in _OF_ORPHANS and "--force" not in line.values)
    choices = metavar.split("|")
    return choices if len(choices) > 1 else ()


def _names(line: _Line, kind: str) -> list[str]:
    """Return the names of a kind in the namespace: those on the node's disk, or those of the fleet's server."""
    if line.is_of_fleet:
        return list(dict.fromkeys(name for _, name in _fleet_keys(line, kind, line.scope)))
    if kind == "Node":
        return names_on_disk.nodes()
    return names_on_disk.pods(line.namespace) if kind == "Pod" else names_on_disk.objects(kind, line.namespace)


def _namespaces(line: _Line) -> list[str]:
    if not line.is_of_fleet:
        return names_on_disk.namespaces()
    return sorted({"default", *(namespace for namespace, _ in _fleet_keys(line, "Pod", None))})


def _fleet_keys(line: _Line, kind: str, namespace: str | None) -> list[tuple[str, str]]:
    from syncpod.cli.actions.fleet_candidates import keys

    return keys(kind, namespace, line.values.get("--state-dir", ""))


def _of_fleet(command: Any, line: _Line, beginning: str, metavar: str) -> Iterable[str]:
    """Return a fleet's kinds and names for an argument: ``KIND/NAME`` once the slash is typed, names after a kind."""
    first, slash, _ = beginning.partition("/")
    if slash:
        kind = _IN_FLEET.get(first.lower())
        names = _names(line, kind) if kind is not None else []
        return [one for one in (f"{first}/{name}" for name in names) if one not in line.words]
    if line.words:
        kind = _IN_FLEET.get(line.words[0].lower())
        return [name for name in _names(line, kind) if name not in line.words[1:]] if kind is not None else []
    if metavar == "POD":
        return _names(line, "Pod")
    if metavar == "KIND/NAME":
        return [KINDS[kind].words[0] for kind in TEMPLATED]
    nodes = ("nodes",) if command.name in _OF_NODES else ()
    return (*_KINDS_OF_FLEET, *nodes, *(("all",) if command.name == "get" else ()))


def _pods(line: _Line, *, orphans: bool) -> list[str]:
    """Return the pods that are not named yet, as ``web`` and, unless the kind comes first, as ``pod/web``."""
    there = names_on_disk.orphans(line.namespace) if orphans else names_on_disk.pods(line.namespace)
    unnamed = [pod for pod in there if pod not in line.pods]
    if line.words and line.words[0] in POD_WORDS:
        return unnamed
    return [*unnamed, *(f"pod/{pod}" for pod in unnamed)]


def _things(line: _Line, *, with_nodes: bool) -> Iterable[str]:
    """Return kinds and pods if no kind is named yet, else names of that kind."""
    first = line.words[0] if line.words else ""
    if first in OBJECTS:
        return names_on_disk.objects(OBJECTS[first], line.namespace)
    if with_nodes and first in NODE_WORDS:
        return [node for node in names_on_disk.nodes() if node not in line.words[1:]]
    pods = [pod for pod in names_on_disk.pods(line.namespace) if pod not in line.pods]
    if first in POD_WORDS:
        return pods
    kinds = () if first else (*_KINDS, "nodes") if with_nodes else _KINDS
    nodes = [f"node/{node}" for node in names_on_disk.nodes()] if with_nodes else []
    return [*kinds, *pods, *(f"pod/{pod}" for pod in pods), *nodes]


def _containers(line: _Line) -> list[str]:
    if line.is_of_fleet:  # only the pod's node has them
        return []
    return [name for pod in line.pods[:1] for name in names_on_disk.containers(line.namespace, pod)]


def _starting(beginning: str, words: Iterable[str]) -> list[str]:
    """Return the words with this beginning; words with a slash only if a slash was typed, or if no other word fits."""
    found = [FILES if word == FILES else word for word in words if word == FILES or word.startswith(beginning)]
    plain = [word for word in found if "/" not in word or "/" in beginning]
    return plain or found


def complete(program: Callable[[], Any], typed: Sequence[str]) -> str:
    """Return a line for each candidate; nothing on any error, since completion must not print one."""
    with contextlib.suppress(Exception):
        return "\n".join(candidates(program(), typed))
    return ""
