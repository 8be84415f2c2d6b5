"""Serves one node: takes it over, runs its worker and its agent, and ends both in order."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from temporalio.envconfig import ClientConnectConfig
from temporalio.service import RPCError
from temporalio.worker import Worker

from syncpod import telemetry
from syncpod.agent.agent import Agent
from syncpod.agent.loop_watchdog import LoopWatchdog
from syncpod.agent.takeover.awaited_runtime import AwaitedRuntime
from syncpod.agent.takeover.lock import NotThisNode
from syncpod.agent.takeover.preconditions import (
    CannotServe,
    awaited_socket,
    require_directory,
    require_same_node,
    take_lock,
)
from syncpod.counters import begin_at_zero
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.kernel.service_notification import notify_ready
from syncpod.settings.kept import read_kept_settings
from syncpod.settings.node import NodeSettings
from syncpod.settings.worker_record import WorkerRecord, remove_worker_record, write_worker_record
from syncpod.temporal.plugin import NoServer
from syncpod.worker.assembly import prepared
from syncpod.worker.served import ServedByNode


class _AskedToStop(Exception):
    """The worker was asked to end before it served."""


_Result = TypeVar("_Result")
CriOf = Callable[[str], CriClient]
"""Makes the client of the runtime at a socket."""


async def serve(
    served: ServedByNode, settings: NodeSettings, connection: ClientConnectConfig, stop: asyncio.Event, cri_of: CriOf
) -> None:
    """Serve the node until `stop` is set. Raises CannotServe, SettingsInvalid; anything else is a defect."""
    await require_directory(settings.manifest_dir)
    kept, awaited = read_kept_settings(settings.state_dir), AwaitedRuntime()
    with contextlib.suppress(_AskedToStop), contextlib.ExitStack() as last:
        endpoint = await _unless(stop, awaited_socket(settings, kept, awaited))
        await require_same_node(settings, kept, endpoint)
        async with cri_of(endpoint) as cri:
            with take_lock(settings) as lock, _refusals(endpoint, connection["target_host"]):
                recording = telemetry.configure(
                    service="syncpod-worker", instance=lock.life.identity, scraped=settings.serves_metrics
                )
                begin_at_zero()
                last.callback(recording.flush)  # may take seconds, so the node's lock is released first
                preparing = prepared(served, settings, connection, endpoint, cri, lock, kept, awaited)
                worker, agent, record = await _unless(stop, preparing)
                with LoopWatchdog(settings.state_dir):
                    await run(worker, agent, record, settings, stop)


@contextlib.contextmanager
def _refusals(endpoint: str, address: str) -> Iterator[None]:
    """Convert errors of the runtime and the Temporal server in the block to CannotServe."""
    try:
        yield
    except (NoServer, NotThisNode) as refusal:
        raise CannotServe(str(refusal)) from refusal
    except RPCError as error:
        raise CannotServe(f"the Temporal server at {address} fails: {error.message}") from error
    except CriError as error:
        raise CannotServe(f"the runtime at {endpoint} fails: {error}") from error


async def _unless(stop: asyncio.Event, doing: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of `doing`. If `stop` is set first, cancel `doing` and raise _AskedToStop."""
    done, stopping = asyncio.create_task(doing), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({done, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise _AskedToStop
        return await done
    finally:
        for task in (done, stopping):
            task.cancel()
        await asyncio.wait({done, stopping})


async def run(worker: Worker, agent: Agent, record: WorkerRecord, settings: NodeSettings, stop: asyncio.Event) -> None:
    """Take the node over, serve, and end in order: first the steps, then the agent, which records their ends.

    Raises the errors that `_refusals` converts.
    """
    try:
        await _unless(stop, agent.boot())
        _note_worker(settings, record)
        serving = asyncio.create_task(worker.run(), name="worker")
        watching = asyncio.create_task(agent.run(), name="agent")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        sys.stdout.write(
            f"worker ready: node {record.node}, runtime {record.runtime} at {record.endpoint}, "
            f"Temporal {record.address} namespace {record.namespace}, task queue {record.task_queue}\n"
        )
        sys.stdout.flush()
        notify_ready()
        await asyncio.wait({serving, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        remove_worker_record(settings.state_dir)
        stopping.cancel()
        if not serving.done():
            await worker.shutdown()
        watching.cancel()
        for ended in await asyncio.gather(serving, watching, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        if not stop.is_set():
            raise RuntimeError("the worker or its agent has ended unexpectedly")
    finally:
        await agent.close()


def _note_worker(settings: NodeSettings, record: WorkerRecord) -> None:
    """Record this worker in the state directory. Raises CannotServe: on a full disk no pod could be started either."""
    try:
        write_worker_record(settings.state_dir, record)
    except OSError as error:
        raise CannotServe(f"state directory {settings.state_dir}: {error.strerror}") from error
