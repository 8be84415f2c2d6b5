"""Rewrites a kubelet's facts as they would be without one known difference. They then must equal ours.

A fact that cannot be rewritten is left unchanged, so its difference stays unexplained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from qa.differential.scenario import FAILED_STARTS
from qa.differential.sentence import Facts

_ENDED: Final = re.compile(r"(status\.\w*ontainerStatuses\.([\w-]+))\.state\.terminated\.exitCode")
_FAILED_START: Final = re.compile(r"(status\.\w*ontainerStatuses\.([\w-]+))\.state\.waiting\.reason")
_EXITED: Final = re.compile(
    r"event\.(Normal|Warning) Exited ([\w-]+): Container \2 exited with code (\d+) \((\w+)\)(: .+)?", re.DOTALL
)
Turn = Callable[[Facts, Facts], Facts]

_FIRST_BACK_OFF: Final = 10
_LONGEST_BACK_OFF: Final = 300


def at_the_next_sync(kubelet: Facts, ours: Facts) -> Facts:
    """Return the kubelet's facts with containers in their back-off as the kubelet shows them at its next sync.

    They wait for CrashLoopBackOff, and their end is in lastState. A container is changed only if its state and
    lastState then equal ours. The message must name the container, the pod, and the delay for its number of restarts.
    """
    facts = dict(kubelet)
    for path in kubelet:
        ended, failed = _ENDED.fullmatch(path), _FAILED_START.fullmatch(path)
        if matched := ended or (failed if kubelet[path] in FAILED_STARTS else None):
            at, name = matched.groups()
            container = {each: value for each, value in facts.items() if each.startswith(f"{at}.")}
            if ended:
                _make_last(container, at)
            _wait(container, at, name, ours)
            if _are_same(container, ours, at):
                facts = {each: value for each, value in facts.items() if not each.startswith(f"{at}.")} | container
    return facts


def with_exits(kubelet: Facts, ours: Facts) -> Facts:
    """Return the kubelet's facts with our events of exits that its statuses confirm.

    If neither side shows the container as ended, such as in a pod that is being ended or restarts all containers, it is
    enough that the pod has the container.
    """
    facts = dict(kubelet)
    for path in ours:
        if (matched := _EXITED.fullmatch(path)) and _is_borne_out(kubelet, ours, matched):
            facts[path] = ours[path]
    return facts


def with_made_ahead(kubelet: Facts, ours: Facts) -> Facts:
    """Return the kubelet's facts with the configuration of each container that only we created before its turn.

    Such a container was removed again: both sides show it as waiting, and no event is about it.
    """
    facts = dict(kubelet)
    for path in ours:
        waiting = re.fullmatch(r"status\.\w*ontainerStatuses\.([\w-]+)\.state\.waiting\.reason", path)
        if waiting is None or kubelet.get(path) != ours[path]:
            continue
        at, about = f"container.{waiting[1]}.", re.compile(rf"event\.\w+ \w+ {waiting[1]}: .*")
        if not _below(kubelet, at) and not any(about.fullmatch(each) for each in (*kubelet, *ours)):
            facts |= {each: value for each, value in ours.items() if each.startswith(at)}
    return facts


def with_mount_failure(kubelet: Facts, ours: Facts) -> Facts:
    """Return the kubelet's facts with its FailedMount events as the waiting messages of containers."""
    facts, prefix = dict(kubelet), "event.Warning FailedMount : "
    said = {f"FailedMount: {path.removeprefix(prefix)}" for path in kubelet if path.startswith(prefix)}
    for path, value in ours.items():
        if path.endswith(".state.waiting.message") and value in said:
            facts[path] = value
    return facts


def with_requests_as_limits(kubelet: Facts, ours: Facts) -> Facts:
    """Return the kubelet's facts as if the pod requested the amounts of its pod-level limits.

    The pod is then Guaranteed. If no process may lower its OOM score, the container keeps 0.
    """
    facts, limit = dict(kubelet), "status.resources.limits."
    for path in kubelet:
        if path.startswith(limit):
            resource = path.removeprefix(limit)
            facts[f"status.resources.requests.{resource}"] = kubelet[path]
            facts[f"status.allocatedResources.{resource}"] = kubelet[path]
        elif path.endswith(".linux.resources.oomScoreAdj"):
            facts[path] = "-997"
    if {f"{limit}cpu", f"{limit}memory"} <= kubelet.keys():
        facts["status.qosClass"] = "Guaranteed"
    parent = "sandbox.linux.cgroupParent"
    facts[parent] = str(kubelet.get(parent, "")).replace("<cgroup>/burstable/", "<cgroup>/")
    if ours.get(said := "said.main.oom score adj") in ("-997", "0"):
        facts[said] = ours[said]
    return facts


def at_its_own_pace(name: str) -> Turn:
    """Return a turn that replaces the kubelet's facts of a container by ours, if both show the same exit codes.

    It is for a container beside the one that the moment is about, which may have restarted more or less often.
    """

    def turned(kubelet: Facts, ours: Facts) -> Facts:
        theirs, mine = set(_ends(kubelet, name)), set(_ends(ours, name))
        if theirs != mine or not mine:
            return kubelet
        at, event = f"status.containerStatuses.{name}.", re.compile(rf"event\.\w+ (Created|Started|BackOff) {name}: .*")
        its = {path: value for path, value in ours.items() if path.startswith(at) or event.fullmatch(path)}
        rest = {path: value for path, value in kubelet.items() if not path.startswith(at) and not event.fullmatch(path)}
        return rest | its

    return turned


def in_a_loop(kubelet: Facts, ours: Facts) -> Facts:
    """Return the kubelet's facts of a pod that restarts all containers again and again, replaced by ours in back-off.

    They are replaced only if each of our containers waits for the common back-off with at most the kubelet's number of
    restarts, and the kubelet's container runs or has just been removed.
    """
    names = [path.split(".")[2] for path in ours if re.fullmatch(r"status\.containerStatuses\.[\w-]+\.name", path)]
    pattern = r"back-off 10s restarting all containers of pod=[\w.-]+\(<uid>\): main exited with code 88"
    for name in names:
        at = f"status.containerStatuses.{name}"
        loops = kubelet.get(f"{at}.state.waiting.reason") == "RestartingAllContainers"
        if not (
            re.fullmatch(pattern, str(ours.get(f"{at}.state.waiting.message")))
            and (loops or f"{at}.state.running.startedAt" in kubelet)
            and int(kubelet[f"{at}.restartCount"]) >= int(ours[f"{at}.restartCount"])
        ):
            return kubelet
    about = re.compile(r"status\.(containerStatuses|conditions)\..*|event\.\w+ (Created|Started|BackOff) .*")
    rest = {path: value for path, value in kubelet.items() if not about.fullmatch(path)}
    return rest | {path: value for path, value in ours.items() if about.fullmatch(path)}


def in_our_order(*prefixes: str) -> Turn:
    """Return a turn that puts the facts below these prefixes into our order, if only their order differs."""

    def turned(kubelet: Facts, ours: Facts) -> Facts:
        facts = dict(kubelet)
        for prefix in prefixes:
            theirs, mine = _below(kubelet, prefix), _below(ours, prefix)
            if sorted(theirs.values()) == sorted(mine.values()):
                facts |= mine
        return facts

    return turned


def _below(facts: Facts, prefix: str) -> dict[str, str]:
    return {path: str(value) for path, value in facts.items() if path.startswith(prefix)}


def _make_last(facts: dict[str, Any], at: str) -> None:
    """Move a container's state to its last one."""
    for path in [path for path in facts if path.startswith(f"{at}.lastState.")]:
        del facts[path]
    for path in [path for path in facts if path.startswith(f"{at}.state.terminated.")]:
        facts[path.replace(".state.", ".lastState.", 1)] = facts.pop(path)


def _are_same(container: Facts, ours: Facts, at: str) -> bool:
    """Return whether a container's state and lastState equal ours, apart from start times."""
    paths = {path for path in (*container, *ours) if path.startswith((f"{at}.state.", f"{at}.lastState."))}
    return all(container.get(path) == ours.get(path) for path in paths if not path.endswith(".startedAt"))


def _wait(facts: dict[str, Any], at: str, name: str, ours: Facts) -> None:
    """Set a container's state to waiting for the back-off of its number of restarts."""
    facts[f"{at}.state.waiting.reason"] = "CrashLoopBackOff"
    message = str(ours.get(f"{at}.state.waiting.message", ""))
    delay = _delay(int(facts.get(f"{at}.restartCount", 0)))
    pattern = rf"back-off {delay} restarting failed container={name} pod=[\w.-]+\(<uid>\)(: PostStartHookError: .+)?"
    if re.fullmatch(pattern, message, re.DOTALL):
        facts[f"{at}.state.waiting.message"] = message


def _delay(restarts: int) -> str:
    """Return the back-off after this number of restarts. The first restart has none."""
    seconds = min(_FIRST_BACK_OFF << max(restarts - 1, 0), _LONGEST_BACK_OFF)
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _is_borne_out(kubelet: Facts, ours: Facts, event: re.Match[str]) -> bool:
    kind, name, code, reason, why = event.groups()
    shown = [*_ends(kubelet, name), *_ends(ours, name)]
    fits = (kind == "Warning") == (code != "0" and not why)
    if not shown:
        return fits and any(re.match(rf"status\.\w*ontainerStatuses\.{name}\.name", path) for path in kubelet)
    return fits and (code, reason) in shown


def _ends(facts: Facts, name: str) -> Iterator[tuple[str, str]]:
    """Yield the exit codes and reasons that a status shows of a container."""
    for path, code in facts.items():
        if re.fullmatch(rf"status\.\w*ontainerStatuses\.{name}\.(state|lastState)\.terminated\.exitCode", path):
            reason = str(facts.get(path.removesuffix("exitCode") + "reason", ""))
            if reason != "RestartingAllContainers":
                yield str(code), reason
