"""The process of a fleet's worker. It makes a new Temporal worker after each outage of the server."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.worker import Worker

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
from syncpod.kernel.os_errors import is_of_the_machine, sentence_of
from syncpod.kernel.process_log import SentencesInLog, log_printable
from syncpod.kernel.service_notification import notify_ready
from syncpod.settings.directories import STATE_DIR, default_state_dir, require_no_copy
from syncpod.settings.values import SettingsInvalid
from syncpod.temporal.foreign_tasks import ForeignTasks
from syncpod.temporal.missing_key import MissingKey
from syncpod.temporal.one_activation import OneActivation
from syncpod.temporal.outage import until_away, until_back
from syncpod.temporal.plugin import NoServer, connection_settings
from syncpod.temporal.sdk_runtimes import logged_runtime
from syncpod.temporal.signed_steps import FleetSigningWorker
from syncpod.temporal.timeouts import STICKY_QUEUE
from syncpod.worker.build import build_id
from syncpod.worker.served import ServedByFleet
from workflows.runner import workflow_runner

log = logging.getLogger("syncpod.fleet")

CACHED_WORKFLOWS = 5000
"""The most workflows kept in memory: one for each node, workload and object."""


def make_worker(served: ServedByFleet, client: Client, access: FleetAccess, sealing: ObjectSealing) -> Worker:
    """Return a worker of a fleet, not yet running. `sealing` seals the fleet's objects for nodes.

    The worker's steps command the fleet's workflows with `client`.
    """
    return Worker(
        verifying_client(client, access),
        task_queue=served.task_queue,
        build_id=build_id(),
        workflows=served.workflows,
        activities=served.activities(client, sealing),
        interceptors=[FleetSigningWorker()],
        workflow_runner=OneActivation(workflow_runner()),
        sticky_queue_schedule_to_start_timeout=STICKY_QUEUE,
        max_cached_workflows=CACHED_WORKFLOWS,
    )


async def serve(
    served: ServedByFleet,
    connection: ClientConnectConfig,
    access: FleetAccess,
    sealing: ObjectSealing,
    stop: asyncio.Event,
) -> None:
    """Serve the fleet until `stop` is set. Raises NoServer, OtherFleet; any other exception is a defect.

    During an outage the server's database may be restored from a backup, so cached workflows are dropped.
    """
    client = await connect_to_fleet(connection, access, runtime=logged_runtime())
    await check_whose(client, access)
    stopped = asyncio.create_task(stop.wait())
    is_logged = False
    while not stop.is_set():
        async with make_worker(served, client, access, sealing):
            if not is_logged:
                _announce(served, connection, client)
                is_logged = True
            await _either(stopped, until_away(client))
        if not stop.is_set():
            log.warning("Temporal is away: the workflows are dropped from memory, as its database may be restored")
            await _either(stopped, until_back(client))


def _announce(served: ServedByFleet, connection: ClientConnectConfig, client: Client) -> None:
    sys.stdout.write(
        f"fleet worker ready: Temporal {connection['target_host']} namespace {client.namespace}, "
        f"task queue {served.task_queue}\n"
    )
    sys.stdout.flush()
    notify_ready()


async def _either(stopped: asyncio.Task[bool], other: Coroutine[Any, Any, None]) -> None:
    """Wait until the worker is asked to end, or until `other` returns. Raises the errors of `other`."""
    awaited = asyncio.create_task(other)
    try:
        await asyncio.wait((stopped, awaited), return_when=asyncio.FIRST_COMPLETED)
        if awaited.done():
            awaited.result()
    finally:
        awaited.cancel()


async def _until_signalled(
    served: ServedByFleet, connection: ClientConnectConfig, access: FleetAccess, sealing: ObjectSealing
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(served, connection, access, sealing, stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="syncpod fleet serve", description="Run a fleet's workflows.")
    default = os.environ.get(STATE_DIR) or str(default_state_dir(os.environ))
    parser.add_argument("--state-dir", default=default, help=f"where the fleet's keys are ({STATE_DIR})")
    return parser


def run(served: ServedByFleet, arguments: Sequence[str] | None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. None = the arguments are those of the process."""
    state_dir = Path(_parser().parse_args(arguments).state_dir)
    log_printable(MissingKey(), ForeignTasks("the fleet's"), SentencesInLog())
    try:
        require_no_copy(state_dir)
        access, sealing = access_to(state_dir), object_sealing_of(state_dir)
        asyncio.run(_until_signalled(served, connection_settings(), access, sealing))
    except (NoServer, OtherFleet, SettingsInvalid) as refusal:
        sys.stderr.write(f"syncpod fleet serve: {refusal}\n")
        return 2
    except OSError as error:
        if not is_of_the_machine(error):
            log.exception("the fleet's worker failed")
            return 1
        sys.stderr.write(f"syncpod fleet serve: {sentence_of(error)}\n")
        return 2
    except Exception:
        log.exception("the fleet's worker failed")
        return 1
    return 0
