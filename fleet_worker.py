"""A fleet's worker: runs the workflows of the fleet's nodes, workloads and objects, on the fleet's own cluster.

``python fleet_worker.py`` serves the Temporal server that the ``temporal`` CLI would find (environment and
temporal.toml). Any number of workers may run, on any machines: all state is in the server. It prints one line on
standard output when it serves, logs to standard error, and ends at SIGTERM or SIGINT; the nodes keep running. Exit
codes: 0 asked to end, 1 a defect, 2 cannot serve, with one sentence that says why.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Worker

from activities.fleet_objects import object_steps
from activities.fleet_workload import fleet_steps
from syncpod.fleet_client import (
    FleetAccess,
    OtherFleet,
    access_to,
    check_whose,
    connect_to_fleet,
    object_sealing_of,
    verifying_client,
)
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.kernel.service_notification import notify_ready
from syncpod.messages.fleet import FLEET_QUEUE
from syncpod.settings.directories import default_state_dir
from syncpod.settings.errors import SettingsInvalid
from syncpod.settings.variables import STATE_DIR
from syncpod.temporal.missing_key import MissingKey
from syncpod.temporal.outage import until_away, until_back
from syncpod.temporal.plugin import NoServer, connection_settings
from syncpod.temporal.signed_steps import FleetSigningWorker
from syncpod.temporal.timeouts import STICKY_QUEUE
from worker import build_id
from workflows.fleet.errand import FleetErrandWorkflow
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.workload import WorkloadWorkflow
from workflows.runner import workflow_runner

log = logging.getLogger("syncpod.fleet")

HEARTBEAT = timedelta(seconds=10)
"""A command takes a worker for dead that was not heard from for 40 s; the SDK's own interval is 60 s."""
CACHED_WORKFLOWS = 5000
"""The most workflows kept in memory: one for each node, workload and object."""


def make_worker(client: Client, access: FleetAccess, sealing: ObjectSealing) -> Worker:
    """Return a worker of a fleet, not yet running. `sealing` seals the fleet's objects for nodes.

    `client` is who commands the fleet: the worker's steps do so with it.
    """
    return Worker(
        verifying_client(client, access),
        task_queue=FLEET_QUEUE,
        build_id=build_id(),
        workflows=[FleetNodeWorkflow, FleetObjectWorkflow, WorkloadWorkflow, FleetErrandWorkflow],
        activities=[*fleet_steps(client), *object_steps(client, sealing)],
        interceptors=[FleetSigningWorker()],
        workflow_runner=workflow_runner(),
        sticky_queue_schedule_to_start_timeout=STICKY_QUEUE,
        max_cached_workflows=CACHED_WORKFLOWS,
    )


async def serve(
    connection: ClientConnectConfig, access: FleetAccess, sealing: ObjectSealing, stop: asyncio.Event
) -> None:
    """Serve the fleet until `stop` is set. Raises NoServer, OtherFleet; any other exception is a defect.

    While the server is away its database may be restored from a backup. So nothing is kept in memory over that.
    """
    client = await connect_to_fleet(connection, access, runtime=_runtime())
    await check_whose(client, access)
    stopped = asyncio.create_task(stop.wait())
    is_told = False
    while not stop.is_set():
        async with make_worker(client, access, sealing):
            if not is_told:
                _tell(connection, client)
                is_told = True
            await _either(stopped, until_away(client))
        if not stop.is_set():
            log.warning("Temporal is away: the workflows are dropped from memory, as its database may be restored")
            await _either(stopped, until_back(client))


def _runtime() -> Runtime:
    """Return the SDK's runtime, which sends the server a heartbeat of this worker every few seconds."""
    return Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=HEARTBEAT)


def _tell(connection: ClientConnectConfig, client: Client) -> None:
    sys.stdout.write(
        f"fleet worker ready: Temporal {connection['target_host']} namespace {client.namespace}, "
        f"task queue {FLEET_QUEUE}\n"
    )
    sys.stdout.flush()
    notify_ready()


async def _either(stopped: asyncio.Task[bool], other: Coroutine[Any, Any, None]) -> None:
    """Wait until the worker is asked to end, or until `other` returns; raise what that raises."""
    awaited = asyncio.create_task(other)
    try:
        await asyncio.wait((stopped, awaited), return_when=asyncio.FIRST_COMPLETED)
        if awaited.done():
            awaited.result()
    finally:
        awaited.cancel()


async def _until_signalled(connection: ClientConnectConfig, access: FleetAccess, sealing: ObjectSealing) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(connection, access, sealing, stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="syncpod fleet serve", description="Run a fleet's workflows.")
    default = os.environ.get(STATE_DIR) or str(default_state_dir(os.environ))
    parser.add_argument("--state-dir", default=default, help=f"where the fleet's keys are ({STATE_DIR})")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker as a process; return its exit code."""
    state_dir = Path(_parser().parse_args(arguments).state_dir)
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    missing_key = MissingKey()
    for handler in logging.getLogger().handlers:
        handler.addFilter(missing_key)
    try:
        asyncio.run(_until_signalled(connection_settings(), access_to(state_dir), object_sealing_of(state_dir)))
    except (NoServer, OtherFleet, SettingsInvalid, OSError) as refusal:
        sys.stderr.write(f"syncpod fleet serve: {refusal}\n")
        return 2
    except Exception:
        log.exception("the fleet's worker failed")
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    # A process that has run a Temporal worker aborts now and then while the interpreter shuts down.
    os._exit(code)
