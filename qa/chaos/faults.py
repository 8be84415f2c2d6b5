"""The faults that chaos causes on a node. Each draws from its own random sequence."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random  # noqa: TID251  # a seeded order of what is done
import signal
import uuid
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.service import RPCError

from qa.chaos.stack import container_of

if TYPE_CHECKING:
    from qa.chaos.run import Chaos

Fault = Callable[["Chaos", random.Random], Coroutine[None, None, None]]
_RPC = timedelta(seconds=5)


async def _kill_worker(chaos: Chaos, chance: random.Random) -> None:
    """Kill the worker: one time in three at once, else only when it serves.

    On a slow machine, a worker that is always killed at once would never serve.
    """
    pause, early = chance.uniform(0, 4), chance.random() < 1 / 3
    if not early and not await chaos.is_served():
        return
    async with chaos.parts["worker"]:
        chaos.count("kill worker", f"for {pause:.1f} s")
        chaos.stack.kill_worker()
        await asyncio.sleep(pause)
        chaos.stack.start_worker()


async def _kill_runtime(chaos: Chaos, chance: random.Random) -> None:
    pause = chance.uniform(0, 4)
    async with chaos.parts["runtime"]:
        chaos.count("kill containerd", f"for {pause:.1f} s")
        chaos.stack.runtime.kill()
        await asyncio.sleep(pause)
        await asyncio.to_thread(chaos.stack.runtime.start)


async def _stop_runtime(chaos: Chaos, chance: random.Random) -> None:
    pause = chance.uniform(0.5, 6)
    async with chaos.parts["runtime"]:
        chaos.count("stop containerd", f"for {pause:.1f} s")
        chaos.stack.stop_for_a_while()
        await asyncio.sleep(pause)
        chaos.stack.go_on()


async def _kill_server(chaos: Chaos, chance: random.Random) -> None:
    pause = chance.uniform(0, 4)
    async with chaos.parts["server"]:
        chaos.count("kill Temporal server", f"for {pause:.1f} s")
        chaos.stack.server.kill()
        await asyncio.sleep(pause)
        await asyncio.to_thread(chaos.stack.server.start)


async def _kill_shim(chaos: Chaos, chance: random.Random) -> None:
    place = chance.random()
    shims = chaos.stack.runtime.shims
    if shims:
        chaos.count("kill shim")
        with contextlib.suppress(ProcessLookupError):
            os.kill(shims[int(place * len(shims))].pid, signal.SIGKILL)


async def _kill_process(chaos: Chaos, chance: random.Random) -> None:
    place = chance.random()
    alive = chaos.stack.witnesses()
    if alive:
        pid = alive[int(place * len(alive))]
        with contextlib.suppress(OSError):
            id_ = container_of(pid)
            chaos.killed.add(id_)
            os.kill(pid, signal.SIGKILL)
            chaos.count("kill process", id_[:12])


async def _slow_down(chaos: Chaos, chance: random.Random) -> None:
    seconds = chance.choice((0, 0, 0.5, 1, 3))
    chaos.count("late runc", f"by {seconds} s")
    chaos.stack.be_late(seconds)


async def _terminate(chaos: Chaos, chance: random.Random) -> None:
    """Terminate a pod's workflow, and apply the pod again at once, under its name."""
    number, place = chance.getrandbits(128), chance.random()
    if not (live := chaos.live):
        return
    pod = live[int(place * len(live))]
    pod.terminated = True
    chaos.count("terminate", pod.name)
    with contextlib.suppress(RPCError):
        await chaos.taken(pod.handle.terminate)
        again = {**pod.document, "metadata": {**pod.document["metadata"], "uid": uuid_of(number)}}
        await chaos.apply(again)


async def _reset(chaos: Chaos, chance: random.Random) -> None:
    """Reset a pod's workflow to the end of one of its tasks."""
    place, moment = chance.random(), chance.random()
    if not (live := chaos.live):
        return
    pod = live[int(place * len(live))]
    with contextlib.suppress(RPCError):
        described = await pod.handle.describe(rpc_timeout=_RPC)
        run = chaos.stack.client.get_workflow_handle(pod.handle.id, run_id=described.run_id)
        ends = [
            event.event_id
            async for event in run.fetch_history_events()
            if event.HasField("workflow_task_completed_event_attributes")
        ]
        if pod.terminated:
            return  # a reset now would end the next pod of that name
        if ends:
            pod.resets.append(described.run_id)
            chaos.count("reset", f"{pod.name} to event {ends[int(moment * len(ends))]} of {ends[-1]}")
            await chaos.stack.client.workflow_service.reset_workflow_execution(
                ResetWorkflowExecutionRequest(
                    namespace=chaos.stack.client.namespace,
                    workflow_execution=WorkflowExecution(workflow_id=pod.handle.id, run_id=described.run_id),
                    reason="chaos",
                    workflow_task_finish_event_id=ends[int(moment * len(ends))],
                    request_id=uuid_of(chance.getrandbits(128)),
                ),
                timeout=_RPC,
            )


def uuid_of(number: int) -> str:
    """Return a UUID made of a drawn number."""
    return str(uuid.UUID(int=number, version=4))


FAULTS: dict[str, tuple[int, Fault]] = {
    "kill worker": (6, _kill_worker),
    "kill containerd": (4, _kill_runtime),
    "stop containerd": (4, _stop_runtime),
    "kill server": (1, _kill_server),
    "kill shim": (3, _kill_shim),
    "kill process": (8, _kill_process),
    "late runc": (4, _slow_down),
    "terminate": (2, _terminate),
    "reset": (2, _reset),
}
"""The faults, with their relative frequencies."""
