"""The facts of one pod on one side, with all text that depends on the side replaced by common words."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from qa.differential.recording import Asked
from qa.differential.scenario import containers
from qa.differential.sides import Event, Side


@dataclass(frozen=True)
class Rule:
    """A pattern for text that always differs between two nodes, and the word that replaces it."""

    name: str
    pattern: re.Pattern[str]
    word: str


RULES: Final = (
    Rule("container and image ids are drawn", re.compile(r"\b[0-9a-f]{64}\b"), "<id>"),
    Rule("a termination log's file is drawn", re.compile(r"(/containers/[^/]+/)[0-9a-f]{8}\b"), r"\1<drawn>"),
    Rule("times pass", re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    Rule(
        "pods' addresses are the network's", re.compile(r"\b10\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.\d+\.\d+\b"), "<ip>"
    ),
    Rule("an ephemeral port is drawn", re.compile(r"<ip>:\d{5}(?=->)"), "<ip>:<port>"),
    Rule("durations vary", re.compile(r"\b\d+(\.\d+)?(ms|µs|s)\b(?= \(\d)"), "<duration>"),
)
"""Replacements in every text, made after the replacement of each side's own names."""

_TIMES: Final = frozenset(
    ("startedAt", "finishedAt", "lastTransitionTime", "lastProbeTime", "startTime", "creationTimestamp")
)


@dataclass(frozen=True)
class Observation:
    """One pod on one side: `facts` are compared one by one, each under its path."""

    facts: Mapping[str, Any]


def own_words(side: Side, pod: Mapping[str, Any]) -> Callable[[str], str]:
    """Return a function that replaces one side's own names (directories, UIDs, cgroups), and then applies `RULES`."""
    uid = str(pod["metadata"]["uid"])
    names = {
        str(side.shared): "<dir>",
        str(side.source.pod_logs): "<logs>",
        **{str(root): "<node>" for root in side.roots},
        f"{side.runtime.cgroup_parent}/kubepods": "<cgroup>",
        side.runtime.cgroup_parent: "<cgroup>",
        str(side.directory): "<side>",
        uid: "<uid>",
        uid.replace("-", "_"): "<uid>",
        side.runtime.names.bridge: "<bridge>",
    }

    def say(text: str) -> str:
        for name, word in names.items():
            text = text.replace(name, word)
        for rule in RULES:
            text = rule.pattern.sub(rule.word, text)
        return text

    return say


def observe(
    side: Side, pod: Mapping[str, Any], events: Iterable[Event], said: Mapping[str, str], asked: Asked
) -> Observation:
    """Return the facts of a pod: its status, its events, its containers' output, and the requests to the runtime."""
    say = own_words(side, pod)
    facts: dict[str, Any] = {}
    _flatten("status", _status(pod.get("status", {})), facts)
    _flatten("event", _events(events, pod.get("status", {}), say), facts)
    for container, text in said.items():
        _flatten(f"said.{container}", _lines(text), facts)
    _flatten("sandbox", asked.sandbox, facts)
    for name, config in asked.containers.items():
        _flatten(f"container.{name}", _container(config), facts)
    if asked.sandbox_stopped:
        _flatten("stops", dict(sorted(asked.stops)), facts)
    return Observation({say(path): say(value) if isinstance(value, str) else value for path, value in facts.items()})


def _status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status with lists as mappings by name, and without addresses."""
    told = {key: value for key, value in status.items() if key not in ("podIP", "podIPs", "hostIP", "hostIPs")}
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        told[kind] = {each["name"]: each for each in status.get(kind, ())}
    told["conditions"] = {each["type"]: each for each in status.get("conditions", ())}
    told["has podIP"] = bool(status.get("podIP"))
    return told


def _events(events: Iterable[Event], status: Mapping[str, Any], say: Callable[[str], str]) -> dict[str, Any]:
    """Return the events. `Created` and `Started` are counted, up to the number of instances in the status."""
    shown = {each["name"]: each.get("restartCount", 0) + 1 for each in containers(status)}
    told: dict[str, Any] = {}
    for event in events:
        key = f"{event.type} {event.reason} {event.container}: {say(event.message)}"
        if event.reason in ("Created", "Started"):
            told[key] = min(told.get(key, 0) + event.count, shown.get(event.container, 1))
        else:
            told[key] = "seen"
    return told


def _lines(text: str) -> dict[str, str]:
    """Return the lines of a text: `key=value` lines by their key, all others by their number."""
    told: dict[str, str] = {}
    for number, line in enumerate(text.splitlines()):
        key, equals, value = line.partition("=")
        if equals and re.fullmatch(r"[\w ./:-]+", key):
            told[key] = value
        else:
            told[f"line {number}"] = line
    return told


def _container(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a container's configuration, with variables by name and mounts by path."""
    told = dict(config)
    told["envs"] = {each["key"]: _text(each.get("value", "")) for each in config.get("envs", ())}
    told["mounts"] = {each["containerPath"]: each for each in config.get("mounts", ())}
    return told


def _text(value: str) -> str:
    """Return a variable's value. CRI has it as bytes, so the message's JSON has it in base64."""
    return base64.b64decode(value).decode(errors="replace")


def _flatten(path: str, value: Any, into: dict[str, Any]) -> None:
    """Put each leaf of a document into `into`, by its path. Empty leaves are left out, and times are replaced."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            _flatten(f"{path}.{key}", "<time>" if key in _TIMES and each else each, into)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            _flatten(f"{path}[{number}]", each, into)
    elif value not in (None, "", [], {}):
        into[path] = value
