"""Runs scenarios on both sides, several at once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import random  # noqa: TID251  # the order in which scenarios are tried
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from qa.differential.compare import Seen, Verdict, judge
from qa.differential.observation import Observation, observe
from qa.differential.scenario import Scenario, Waiting
from qa.differential.sides import NODE, Event, Side, Stage

PATIENCE_SECONDS: Final = 110.0
"""How long a scenario may take to reach its moment, on each side."""
AT_ONCE: Final = 12
_LOOK_SECONDS: Final = 0.4
_LOOKS_PER_REFUSALS: Final = 10
_LAST_SECONDS: Final = 3.0
"""The events of an ended pod are complete if none has come in this time."""
_REFERRING: Final = re.compile(r"static pods may not reference \w+")
"""The only reason of a refusal that is compared; it is the kubelet's, and not about an invalid manifest."""


class Undecided(Exception):
    """A side has not reached the moment. The message has the side's name and its last state."""


@dataclass
class Looking:
    """Polls the newest status of every scenario's pod on one side."""

    side: Side
    names: set[str]
    seen: dict[str, dict[str, Any]]
    refused: dict[str, str]
    """The reasons why files were refused, by file name; up to some seconds old."""

    async def look(self) -> None:
        """Poll until cancelled. One request is enough for all pods."""
        for turn in itertools.count():
            with contextlib.suppress(OSError, TimeoutError):
                # A busy node may not return all pods in time: their last status is kept.
                self.seen |= await self.side.source.pods(frozenset(self.names))
                if turn % _LOOKS_PER_REFUSALS == 0:
                    self.refused = await self.side.source.refusals()
            await asyncio.sleep(_LOOK_SECONDS)


async def run(stage: Stage, scenarios: Sequence[Scenario], told: Callable[[Verdict], None]) -> list[Verdict]:
    """Run the scenarios, some at once, and return the verdicts in the scenarios' order. `told` is called with each.

    A scenario that missed its moment, as happens on a busy machine, is run once more.
    """
    turns = asyncio.Semaphore(AT_ONCE)
    # In mixed order, so that scenarios that wait for back-offs run beside those that use the CPU.
    mixed = random.Random(0).sample(scenarios, len(scenarios))
    lookings = [Looking(side, set(), {}, {}) for side in (stage.kubelet, stage.ours)]
    looks = [asyncio.create_task(looking.look()) for looking in lookings]

    async def in_turn(scenario: Scenario) -> Verdict:
        async with turns:
            verdict = await _try(lookings, scenario, scenario.title)
            if _missed(verdict):
                verdict = await _try(lookings, _again(scenario), scenario.title)
        told(verdict)
        return verdict

    try:
        verdicts = {each.title: each for each in await asyncio.gather(*(in_turn(each) for each in mixed))}
        return [verdicts[each.title] for each in scenarios]
    finally:
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)


def _missed(verdict: Verdict) -> bool:
    """Return whether a side has not reached the moment, and no sentence explains that."""
    return verdict.kind == "undecided" or any(
        each.path == "moment" and each.sentence is None for each in verdict.differences
    )


def _again(scenario: Scenario) -> Scenario:
    """The scenario for its second run, under another name: a static pod of the same name would keep its history."""
    moment = scenario.moment.or_ended if isinstance(scenario.moment, Waiting) else scenario.moment
    return dataclasses.replace(scenario, name=f"{scenario.name}-again", moment=moment)


async def _try(lookings: Iterable[Looking], scenario: Scenario, title: str) -> Verdict:
    seen: list[object] = list(
        await asyncio.gather(*(_observe(each, scenario) for each in lookings), return_exceptions=True)
    )
    late = [str(each) for each in seen if isinstance(each, Undecided)]
    if len(late) == len(seen):
        return Verdict(title, "undecided", why="; ".join(late))
    for each in seen:
        if isinstance(each, BaseException) and not isinstance(each, Undecided):
            raise each
    if late:  # only whether each side reached the moment can be compared
        seen = [Observation({"moment": "reached" if isinstance(each, Observation) else str(each)}) for each in seen]
    kubelet, ours = (each.facts for each in seen if isinstance(each, Observation))
    return judge(title, Seen(kubelet, ours))


async def _observe(looking: Looking, scenario: Scenario) -> Observation:
    """Run the scenario on one side up to its moment, return the observation, and remove the pod."""
    side, file, name = looking.side, f"{scenario.pod_name}.json", f"{scenario.pod_name}-{NODE}"
    looking.names.add(name)
    await asyncio.to_thread(side.write, file, scenario.manifest())
    try:
        if scenario.refused:
            return await _refusal(looking, file)
        pod = await _moment(looking, file, name, scenario)
        if scenario.ends:
            return await _ended(looking, file, name, pod)
        events, said = await side.source.events(name), await asyncio.to_thread(side.logs, pod)
        return observe(side, pod, events, said, side.recording.asked[name])
    finally:
        side.remove(file)
        looking.names.discard(name)


async def _moment(looking: Looking, file: str, name: str, scenario: Scenario) -> dict[str, Any]:
    """Wait until the pod has reached the moment and no longer changes. Raises Undecided, at once for a refused file."""
    deadline, since, before = time.monotonic() + PATIENCE_SECONDS, 0.0, None
    while time.monotonic() < deadline:
        pod = looking.seen.get(name)
        if pod is not None and scenario.moment(pod.get("status", {})) and await _said(looking.side, name, scenario):
            if pod != before:
                since, before = time.monotonic(), pod
            elif time.monotonic() - since > scenario.still_seconds:
                return pod
        if pod is None and (why := looking.refused.get(file)) is not None:
            raise Undecided(f"{looking.side.name} refused the file: {why}")
        await asyncio.sleep(_LOOK_SECONDS / 2)
    short = f"{_short(looking.seen.get(name))} {await _last_warning(looking.side, name)}"
    raise Undecided(f"{looking.side.name} did not come to it: {short}")


async def _last_warning(side: Side, name: str) -> str:
    """The message of a pod's last warning; "" if it has none."""
    return next((each.message for each in reversed(await side.source.events(name)) if each.type == "Warning"), "")


async def _said(side: Side, name: str, scenario: Scenario) -> bool:
    """Return whether the scenario's event has come, and its containers have been requested from the runtime."""
    if sum(number + 1 for number in side.recording.asked[name].attempts.values()) < scenario.created:
        return False
    return not scenario.after or any(each.reason == scenario.after for each in await side.source.events(name))


async def _refusal(looking: Looking, file: str) -> Observation:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if (why := looking.refused.get(file)) is not None:
            referring = _REFERRING.search(why)
            return Observation({"file": f"refused: {referring[0]}" if referring else "refused"})
        await asyncio.sleep(1)
    return Observation({"file": "not refused"})


async def _ended(looking: Looking, file: str, name: str, pod: dict[str, Any]) -> Observation:
    """End the pod, wait until its sandbox has been stopped, and observe how it ended."""
    side = looking.side
    side.remove(file)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not side.recording.asked[name].sandbox_stopped:
        if time.monotonic() > deadline:
            raise Undecided(f"{side.name} has not stopped the sandbox")
        await asyncio.sleep(_LOOK_SECONDS)
    events = await _last_events(side, name)
    trace = side.shared / name.removesuffix(f"-{NODE}") / "trace"
    said = {"trace": trace.read_text() if trace.exists() else ""}
    return observe(side, pod, events, said, side.recording.asked[name])


async def _last_events(side: Side, name: str) -> list[Event]:
    """The events of an ended pod, once no more have come for a while: some are sent after its last stop."""
    since, before = time.monotonic(), await side.source.last_events(name)
    while time.monotonic() - since < _LAST_SECONDS:
        await asyncio.sleep(1)
        events = await side.source.last_events(name)
        if events != before:
            since, before = time.monotonic(), events
    return before


def _short(pod: dict[str, Any] | None) -> str:
    if pod is None:
        return "no such pod"
    status = pod.get("status", {})
    states = [
        f"{each['name']} {each.get('restartCount', 0)} {each.get('state', {})}"
        for each in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    ]
    return f"{status.get('phase')} {status.get('reason', '')} {'; '.join(states)}"[:400]


def tell(verdict: Verdict) -> None:
    """Print a verdict, with its unexplained differences."""
    sys.stdout.write(f"{verdict.kind:12} {verdict.title} {verdict.why}\n")
    for each in verdict.differences:
        if each.sentence is None:
            sys.stdout.write(f"    {each.path}: {each.kubelet!r} -> {each.ours!r}\n")
    sys.stdout.flush()
