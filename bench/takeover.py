"""``python -m bench.takeover``: kills the worker of 50 running pods, and measures how soon each pod answers again.

While no worker serves, some containers exit and some pods get a label. The next worker must record each of these
changes exactly once. The end-to-end tests check that (`tests/e2e/test_combined_faults.py`); this program measures the
time.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from temporalio.service import RPCError

from bench.on_runtimes import main
from tests.e2e.faults_support import FaultyNode, Pod, ended, open_to_all, shell, until

PODS = 50
EXITING = 5
"""How many of the pods have a container that exits while no worker serves."""
LABELLED = 5
"""How many other pods get a label in that time."""
AIM_SECONDS = 5.0
"""The longest accepted time from the start of the new worker's process to the answer of the last pod."""

_EXITS = "trap 'exit 0' TERM; while [ ! -e /out/exit ]; do sleep 1; done; rm /out/exit; exit 7"
_ASKED_FOR = timedelta(seconds=1)
_PATIENCE_SECONDS = 120.0
"""How long to wait for the last answer."""


@dataclass(frozen=True)
class Takeover:
    """The outcome of killing a worker."""

    ready: float
    """Seconds from the start of the new worker's process until it was ready."""
    answers: tuple[float, ...]
    """Seconds from the same moment until each pod answered a query, sorted."""
    restarted: tuple[str, ...]
    """Pods with a container that was replaced, other than those whose container exited."""
    lost: tuple[str, ...]
    """Events, exits and labels that the next worker lost, or recorded twice: `POD: what`."""


async def run(node: FaultyNode, place: Path, count: int = PODS) -> Takeover:
    """Start `count` pods, kill the worker, start another, and return the outcome. The pods are deleted."""
    pods = [await _apply(node, place / f"{number:02}") for number in range(count)]
    await asyncio.gather(*(pod.running() for pod in pods))
    exiting, labelled, others = pods[:EXITING], pods[EXITING : EXITING + LABELLED], pods[EXITING:]
    containers = {pod.name: await pod.containers() for pod in pods}
    told = {pod.name: await pod.handle.query("events") for pod in pods}
    await node.kill()
    node.start = subprocess.Popen  # as in production: the process imports everything first
    for number, _ in enumerate(exiting):
        await asyncio.to_thread((place / f"{number:02}" / "exit").touch)
    for pod in labelled:
        metadata = {**pod.document["metadata"], "labels": {"while": "away"}}
        await pod.handle.signal("update_pod", {**pod.document, "metadata": metadata})
    for pod in exiting:
        await until(partial(ended, pod, "web"))
    answers = await answered(node, pods)
    await asyncio.gather(*(pod.running(web=1) for pod in exiting), *(pod.running() for pod in others))
    restarted = [pod.name for pod in others if await pod.containers() != containers[pod.name]]
    lost = [f"{pod.name}: {what}" for pod in pods for what in await _lost(pod, told[pod.name], exited=pod in exiting)]
    for pod in labelled:
        if (await pod.get())["metadata"].get("labels") != {"while": "away"}:
            lost.append(f"{pod.name}: its label")
    await asyncio.gather(*(pod.delete() for pod in pods))
    return Takeover(node.ready_after, tuple(sorted(answers)), tuple(restarted), tuple(lost))


async def _apply(node: FaultyNode, place: Path) -> Pod:
    await asyncio.to_thread(open_to_all, place)
    web = shell("web", _EXITS, volumeMounts=[{"name": "out", "mountPath": "/out"}])
    return await node.apply(web, volumes=[{"name": "out", "hostPath": {"path": str(place)}}])


async def answered(node: FaultyNode, pods: Sequence[Pod]) -> list[float]:
    """Start another worker; return the seconds until each pod answered.

    Raises the errors of the worker's start, and TimeoutError after two minutes.
    """
    began = time.monotonic()
    answers = asyncio.gather(*(_answered(pod, began) for pod in pods))
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.gather(node.serve(), answers)
    finally:
        answers.cancel()  # no pod answers if the worker does not start
    return answers.result()


async def _answered(pod: Pod, began: float) -> float:
    """Query a pod until it answers; return how many seconds after `began` that was."""
    while True:
        try:
            await pod.handle.query("pod", rpc_timeout=_ASKED_FOR)
        except RPCError:  # no worker serves yet
            await asyncio.sleep(0.02)
        else:
            return time.monotonic() - began


async def _lost(pod: Pod, told: Sequence[Any], *, exited: bool) -> list[str]:
    """Return the events from before the kill that are lost, and the recorded exits if they are not as expected.

    With `exited`, exactly one exit must be recorded, else none.
    """
    known = {_told(event): event["count"] for event in await pod.handle.query("events")}
    lost = [f"event {event['reason']}" for event in told if known.get(_told(event), 0) < event["count"]]
    exits = [line["outcome"] for line in await pod.history("exit")]
    if exits != (["exited 7 (Error)"] if exited else []):
        lost.append(f"exits known: {exits}")
    return lost


def _told(event: Any) -> tuple[str, ...]:
    """Return the identity of an event; identical events are counted together."""
    return event["reason"], event["container"], event["message"]


# --- the table --------------------------------------------------------------------------------------------------------


def table(environment: str, found: dict[str, Takeover]) -> str:
    """Return the figures as Markdown."""
    lines = [
        f"| {PODS} pods on | worker ready | first answer | median | last answer | aim | restarted | lost |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for runtime, takeover in found.items():
        first, median, last = takeover.answers[0], takeover.answers[len(takeover.answers) // 2], takeover.answers[-1]
        lines.append(
            f"| {runtime} | {takeover.ready:.1f} s | {first:.1f} s | {median:.1f} s | {last:.1f} s "
            f"| {AIM_SECONDS:.0f} s | {len(takeover.restarted)} | {len(takeover.lost)} |"
        )
    return "\n".join(lines) + f"\n\n{environment}\n"


def report(environment: str, found: dict[str, Takeover], _whole: bool) -> int:
    """Print the figures and all failures; return 1 if there are any."""
    print(table(environment, found))
    wrong = [each for takeover in found.values() for each in (*takeover.restarted, *takeover.lost)]
    for each in wrong:
        sys.stderr.write(f"bench: {each}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main("bench.takeover", "Kill the worker of 50 pods.", run, report))
