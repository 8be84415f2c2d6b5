"""``syncpod down``: end what ``up`` has started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import remark, say
from syncpod.cli.options import Node, StateDir

if TYPE_CHECKING:
    from temporalio.client import Client

_WORKER_SECONDS = 15.0
_SERVER_SECONDS = 15.0


def down(
    state_dir: StateDir = "",
    node: Node = "",
    pods: Annotated[
        bool, typer.Option("--pods", help="Delete this node's pods first, and wait for their end.")
    ] = False,
) -> None:
    """End the server and worker that `up` started.

    Pods run on, unless --pods deletes them first.
    """
    from syncpod.cli import node_process
    from syncpod.cli.settings import settings
    from syncpod.cli.state_directory import running_server

    here = settings(node=node, state_dir=state_dir)
    directory = here.state_dir
    worker = node_process.serving(directory)
    if pods:
        _delete_pods(worker.node if worker else here.node, str(directory))
    if not directory.is_dir():
        remark(f"Nothing to end: {directory} is not there")
        return
    ended = _end_worker(directory) + _end_server(directory)
    if not ended:
        remark(f"Nothing to end: no worker or server that `syncpod up` has started runs in {directory}")
    if worker and node_process.serving(directory):
        remark(f"Note: the worker of {directory} (pid {worker.pid}) was not started by `syncpod up`; it runs on")
    if (server := running_server(directory)) is not None:
        remark(f"Note: the server at {server.address} (pid {server.process.pid}) was not started by `syncpod up`")
    if ended and not pods:
        say("pods run on; `syncpod up` serves them again")


def _end_worker(directory: Path) -> int:
    from syncpod.cli.processes import end
    from syncpod.cli.state_directory import exclusive, forget_worker, running_worker

    with exclusive(directory):
        process = running_worker(directory)
        if process is None or not end(process, patience_seconds=_WORKER_SECONDS):
            return 0
        forget_worker(directory)
    say(f"worker ended (pid {process.pid})")
    return 1


def _end_server(directory: Path) -> int:
    from syncpod.cli.processes import end
    from syncpod.cli.state_directory import exclusive, forget_server, running_server

    with exclusive(directory):
        record = running_server(directory)
        if record is None or not record.detached or not end(record.process, patience_seconds=_SERVER_SECONDS):
            return 0
        forget_server(directory)
    say(f"Temporal server ended (pid {record.process.pid})")
    return 1


def _delete_pods(node: str, state_dir: str) -> None:
    from syncpod.cli import session
    from syncpod.cli.delete import delete_pods

    async def work(client: Client) -> None:
        from syncpod.cli.pods import list_pods
        from syncpod.cli.selector import Selector

        readings = await list_pods(client, None, Selector())
        await delete_pods(client, [one.key for one in readings if one.pod.spec.node_name == node], grace=None)

    session.run(work, state_dir=state_dir)
