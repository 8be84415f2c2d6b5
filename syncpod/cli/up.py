"""``syncpod up``: everything that pods need on this machine, in one command."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import columns, paint, program, remark, say
from syncpod.cli.failure import INTERRUPTED, Failure
from syncpod.cli.options import Filenames, ManifestNamespace, Node, StateDir, Timeout

if TYPE_CHECKING:
    from datetime import timedelta

    from temporalio.envconfig import ClientConnectConfig

    from syncpod.cli import parts
    from syncpod.node_settings import NodeSettings
    from syncpod.pod import Admission


def up(
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    node: Node = "",
    state_dir: StateDir = "",
    runtime_endpoint: Annotated[
        str,
        typer.Option(
            "--runtime-endpoint",
            metavar="SOCKET",
            help="The CRI socket.",
            show_default="where it usually is, else the embedded runtime",
        ),
    ] = "",
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Use the embedded runtime, whatever else is there.")
    ] = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Use the embedded runtime with timers in place of processes.")
    ] = False,
    timeout: Timeout = "0",
) -> None:
    """Start server, runtime and worker, and bring pods up.

    Started is what does not run already: a Temporal dev server, unless the environment or temporal.toml names another;
    the embedded runtime, where neither containerd nor CRI-O answers; and a worker. All of it and the pods stay when
    this command ends.
    """
    from syncpod.cli import parts
    from syncpod.cli.apply import parse_timeout
    from syncpod.cli.manifests import admitted_pods
    from syncpod.cli.runtime_choice import choose
    from syncpod.cli.settings import settings

    patience = parse_timeout(timeout)
    here = settings(node=node, state_dir=state_dir, runtime_endpoint=runtime_endpoint)
    admissions = admitted_pods(filename, namespace) if filename else []
    choice = choose(here, asked=runtime_endpoint, embedded=embedded, simulate=simulate)
    try:
        server = parts.start_server(here)
        running = parts.start_node(here, choice, server)
        if not (server.started or running.started):
            remark("Everything runs already")
        _tell(here, server, running)
        if admissions:
            say()
            asyncio.run(_bring_up(server.config, admissions, running.worker.node, patience))
    except KeyboardInterrupt:
        remark(f"\n{_how_to_stop(admissions)}")
        raise typer.Exit(INTERRUPTED) from None
    _tell_what_next(here, admissions)


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


def _tell(here: NodeSettings, server: parts.Server, running: parts.Node) -> None:
    from syncpod.cli.state_directory import log_directory, runtime_log, server_log, worker_log

    directory, worker, own = here.state_dir, running.worker, running.own
    logs = [server_log(directory)] if server.own else []
    logs += [runtime_log(directory)] if own and own.detached else []
    logs += [worker_log(directory)]
    kind = "" if own is None else " (embedded: simulated)" if own.simulated else " (embedded: no isolation)"
    rows = [("Temporal", f"{worker.address}, namespace {worker.namespace}")]
    rows += [("UI", server.own.ui)] if server.own else []
    rows += [("runtime", f"{worker.runtime}{kind}"), ("socket", worker.endpoint), ("node", worker.node)]
    rows += [("state", str(directory)), ("logs", f"{log_directory(directory)}: {', '.join(log.name for log in logs)}")]
    say("\n".join(columns(rows)))


def _tell_what_next(here: NodeSettings, admissions: list[Admission]) -> None:
    from syncpod.cli.settings import settings

    say()
    if here.state_dir != settings().state_dir:
        say(f"For other commands: export SYNCPOD_STATE_DIR={shlex.quote(str(here.state_dir))}")
    say("Try next:")
    us = shlex.quote(program())
    if admissions:
        meta = admissions[0].pod.metadata
        flag = "" if meta.namespace == "default" else f" -n {meta.namespace}"
        commands = [f"{us} logs{flag} -f {meta.name} --all-containers", f"{us} exec{flag} -it {meta.name} -- sh"]
        commands.append(f"{us} history{flag} {meta.name}")
    else:
        commands = [f"{us} apply -f pod.yaml --wait", f"{us} get pods", f"{us} --help"]
    for command in commands:
        say(f"  {paint(command, 'bold')}")
    say(_how_to_stop(admissions))


def _how_to_stop(admissions: list[Admission]) -> str:
    name, us = admissions[0].pod.metadata.name if admissions else "NAME", shlex.quote(program())
    return (
        f"Pods and all that serves them run on. `{us} delete pod {name}` ends a pod,\n"
        f"`{us} down` everything, `{us} down --purge` leaves no file either."
    )
