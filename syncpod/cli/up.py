"""``syncpod up``: everything that pods need on this machine, in one command."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import columns, paint, remark, say
from syncpod.cli.failure import INTERRUPTED, BadInput, Failure
from syncpod.cli.options import Filenames, ManifestNamespace, Node, StateDir, Timeout

if TYPE_CHECKING:
    from datetime import timedelta

    from temporalio.envconfig import ClientConnectConfig

    from syncpod.cli.state_directory import ServerRecord
    from syncpod.node_settings import NodeSettings, WorkerRecord
    from syncpod.pod import Admission


def up(
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    node: Node = "",
    state_dir: StateDir = "",
    runtime_endpoint: Annotated[
        str,
        typer.Option(
            "--runtime-endpoint", metavar="SOCKET", help="The CRI socket.", show_default="where it usually is"
        ),
    ] = "",
    timeout: Timeout = "0",
) -> None:
    """Start server and worker, and bring pods up.

    A Temporal dev server and a worker are started unless they run already. Server, worker and pods stay when this
    command ends. A Temporal server that the environment or temporal.toml names is used in place of one of our own.
    """
    from syncpod.cli.apply import parse_timeout
    from syncpod.cli.manifests import admitted_pods
    from syncpod.cli.settings import settings

    patience = parse_timeout(timeout)
    here = settings(node=node, state_dir=state_dir, runtime_endpoint=runtime_endpoint)
    endpoint = _find_runtime(here)
    admissions = admitted_pods(filename, namespace) if filename else []
    try:
        config, server = _start_server(here)
        worker = _start_worker(here, endpoint, config)
        _tell(here, server, worker)
        if admissions:
            say()
            asyncio.run(_bring_up(config, admissions, worker.node, patience))
    except KeyboardInterrupt:
        remark(f"\n{_how_to_stop(admissions)}")
        raise typer.Exit(INTERRUPTED) from None
    _tell_what_next(here, server, admissions)


def _find_runtime(here: NodeSettings) -> str:
    """Return the runtime that is named, else the one that the state directory's worker uses, else one that is found."""
    from syncpod.cli.node_process import serving
    from syncpod.cri.endpoint import VARIABLE, NoRuntime, find_endpoint

    worker = serving(here.state_dir)
    if worker is not None and not here.runtime_endpoint:
        return worker.endpoint
    named = {VARIABLE: here.runtime_endpoint} if here.runtime_endpoint else {}
    try:
        return find_endpoint({**os.environ, **named})
    except (NoRuntime, ValueError) as error:
        raise BadInput(str(error)) from None


def _start_server(here: NodeSettings) -> tuple[ClientConnectConfig, ServerRecord | None]:
    """Return how to connect, and our own server; None where another one is configured."""
    from syncpod.cli import dev_server
    from syncpod.plugin import NoServer, connection_settings

    try:
        config = connection_settings(default_address="")
        if config["target_host"]:
            return config, None
        server, child = dev_server.start(here.state_dir)
        if child is not None:
            remark(paint(f"Temporal server started (pid {child.pid})", "dim"))
        return connection_settings(default_address=server.address), server
    except NoServer as error:
        raise BadInput(str(error)) from None


def _start_worker(here: NodeSettings, endpoint: str, config: ClientConnectConfig) -> WorkerRecord:
    from syncpod.cli import node_process, session

    asyncio.run(session.connect(config))  # so that a server that is not there is not the worker's to find out
    environment = {**os.environ, "TEMPORAL_ADDRESS": config["target_host"]}
    worker, started = node_process.start(here, endpoint, environment)
    if started:
        remark(paint(f"worker started (pid {worker.pid})", "dim"))
    elif (worker.address, worker.namespace) != (config["target_host"], config["namespace"]):
        raise Failure(
            f"the worker of {here.state_dir} (pid {worker.pid}) serves Temporal {worker.address} namespace "
            f"{worker.namespace}, not {config['target_host']} namespace {config['namespace']}: end it first"
        )
    return worker


async def _bring_up(
    config: ClientConnectConfig, admissions: list[Admission], node: str, patience: timedelta | None
) -> None:
    from syncpod.cli import session
    from syncpod.cli.apply import apply_all
    from syncpod.cli.columns import HEADER
    from syncpod.cli.pod_table import coloured_lines
    from syncpod.cli.progress import Progress
    from syncpod.cli.waiting import until_settled, verdicts

    client = await session.connect(config)
    applied = await apply_all(client, admissions, node)
    with Progress() as progress:
        outcomes = await until_settled(client, applied, timeout=patience, show=progress.show)
    say()
    say("\n".join(coloured_lines(HEADER, [reading for _, reading, _ in outcomes if reading is not None])))
    _, bad = verdicts(outcomes, patience)
    if bad:
        raise Failure("\n".join(bad))


# --- telling ----------------------------------------------------------------------------------------------------------


def _tell(here: NodeSettings, server: ServerRecord | None, worker: WorkerRecord) -> None:
    from syncpod.cli.state_directory import server_log, worker_log

    rows = [("Temporal", f"{worker.address}, namespace {worker.namespace}")]
    rows += [("UI", server.ui), ("server log", str(server_log(here.state_dir)))] if server else []
    rows += [("runtime", f"{worker.runtime} at {worker.endpoint}"), ("node", worker.node)]
    rows += [("worker log", str(worker_log(here.state_dir))), ("state", str(here.state_dir))]
    say("\n".join(columns(rows)))


def _tell_what_next(here: NodeSettings, server: ServerRecord | None, admissions: list[Admission]) -> None:
    from syncpod.node_settings import default_state_dir

    say()
    if server and here.state_dir != default_state_dir(os.environ):
        say(f"For other commands: export SYNCPOD_STATE_DIR={here.state_dir}")
    say("Try next:")
    if admissions:
        meta = admissions[0].pod.metadata
        flag = "" if meta.namespace == "default" else f" -n {meta.namespace}"
        commands = [f"syncpod logs -f {meta.name}{flag}", f"syncpod describe pod {meta.name}{flag}"]
        commands.append(f"syncpod history {meta.name}{flag}")
    else:
        commands = ["syncpod apply -f pod.yaml --wait", "syncpod get pods", "syncpod --help"]
    for command in commands:
        say(f"  {paint(command, 'bold')}")
    say(_how_to_stop(admissions))


def _how_to_stop(admissions: list[Admission]) -> str:
    name = admissions[0].pod.metadata.name if admissions else "NAME"
    return (
        f"Server, worker and pods run on. `syncpod delete pod {name}` ends a pod,\n"
        "`syncpod down` ends worker and server, `syncpod down --pods` everything."
    )
