"""The double start: runc answers a start three seconds late, and the worker is killed at twenty moments of that delay.

At those moments, a job that may run only once (`restartPolicy: Never`) has already written its START. It must not write
a second one.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from typing import Any

from qa.chaos import notes
from qa.chaos.run import say
from qa.chaos.stack import NODE, Stack, stack
from qa.chaos.witness import container, volumes
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.pod import Pod
from syncpod.temporal.workflow_starts import start_arguments
from tests.agent.waiting import until

MOMENTS = 20
"""How many moments the delay of runc is divided into."""
LATE_SECONDS = 3.0
_PATIENCE = 120.0


async def double_start(runtime: str, numbers: Iterable[int]) -> int:
    """For each number, try to provoke a double start. Print a table by moment; return 0 if every job started once."""
    starts: dict[int, Counter[int]] = {}
    ends: Counter[str] = Counter()
    async with stack(runtime) as node:
        node.be_late(LATE_SECONDS)
        for number in numbers:
            moment = number % MOMENTS
            count, said = await _try(node, number, moment * LATE_SECONDS / MOMENTS)
            starts.setdefault(moment, Counter())[count] += 1
            ends[said] += 1
    say(f"{runtime}: runc answers {LATE_SECONDS:g} s late; the worker is killed so long after START")
    say(f"{'AFTER':>8}{'TIMES':>7}  STARTS OF EACH")
    for moment, counts in sorted(starts.items()):
        each = ", ".join(f"{count} x {times}" for count, times in sorted(counts.items()))
        say(f"{moment * LATE_SECONDS / MOMENTS:7.2f}s{counts.total():7}  {each}")
    for said, count in ends.most_common():
        say(f"{count:6}  {said}")
    wrong = sum(times for counts in starts.values() for count, times in counts.items() if count != 1)
    say(f"{wrong} of {sum(each.total() for each in starts.values())} did not start exactly once")
    return int(bool(wrong))


async def _try(node: Stack, number: int, after: float) -> tuple[int, str]:
    """Apply a job, kill the worker `after` seconds after its START, and start another worker.

    Return the number of the job's starts, and its reported end.
    """
    name = f"job-{number:03}"
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": str(uuid.uuid4())},
        "spec": {
            "restartPolicy": "Never",
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 1,
            "containers": [container(name, "once", "for=8000")],
            "volumes": volumes(node.directory),
        },
    }
    arguments = start_arguments(Pod.model_validate(document), NODE, has_attributes=True)
    handle = await node.client.start_workflow(POD_WORKFLOW, {"pod": document}, **arguments)
    await until(lambda: bool(_starts(node, name)), patience=_PATIENCE)
    await asyncio.sleep(after)
    node.kill_worker()
    await node.start_worker().ready()
    pod = await _ended(handle)
    # A second start would have begun by now: the pod has ended, and after this pause no start is pending in runc.
    await asyncio.sleep(LATE_SECONDS)
    count = _starts(node, name)
    await handle.signal("delete_pod", {"gracePeriodSeconds": 0})
    await handle.result()
    return count, _said(pod)


def _starts(node: Stack, name: str) -> int:
    return sum(1 for note in notes.read_one(node.out / f"{name}.log") if note.what == "START")


async def _ended(handle: Any) -> dict[str, Any]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        pod: dict[str, Any] = await handle.query("pod")
        if pod["status"].get("phase") in ("Succeeded", "Failed") or time.monotonic() > deadline:
            return pod
        await asyncio.sleep(0.2)


def _said(pod: dict[str, Any]) -> str:
    (status,) = pod["status"].get("containerStatuses") or [{}]
    ended = status.get("state", {}).get("terminated", {})
    how = f"{ended.get('exitCode')} ({ended.get('reason')})"
    return f"{pod['status'].get('phase')}: {how}, {status.get('restartCount')} restarts"
