"""Checks what ``syncpod up`` is to start, starts the server, the runtime and the worker, and applies pods."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import typer

from syncpod.api.views.pod_columns import HEADER
from syncpod.cli import local_processes
from syncpod.cli.actions.apply import apply_all
from syncpod.cli.actions.up_checks import checked, cluster_of
from syncpod.cli.actions.up_texts import exports, how_to_go_on, not_followed, print_next_steps, print_running, what_runs
from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import INTERRUPTED, BadInput, Failure
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.manifests import Manifests, admitted
from syncpod.cli.machine.kept_logs import last_words
from syncpod.cli.machine.object_apply import keep
from syncpod.cli.machine.runtime_choice import choose
from syncpod.cli.machine.settings import kept_settings, path_setting, settings
from syncpod.cli.orphans import notice
from syncpod.cli.temporal import session
from syncpod.cli.temporal.ephemeral_containers import without_known
from syncpod.cli.temporal.foresight import refuse_unenforced
from syncpod.cli.temporal.pod_apply import refuse_cordoned
from syncpod.cli.temporal.pod_waits import lacks_image, sentences, until_settled
from syncpod.cli.view.progress import Progress
from syncpod.cli.view.rows import coloured_lines, row_of
from syncpod.settings.table import MANIFEST_DIR
from syncpod.settings.worker_record import serving

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

    from syncpod.cli.machine.runtime_choice import Choice
    from syncpod.pod import Pod
    from syncpod.settings.node import NodeSettings
    from syncpod.settings.worker_record import WorkerRecord


@dataclass(frozen=True)
class Kubeconfigs:
    """The options that have the node join, use or leave a Kubernetes cluster."""

    own: str
    """The node's own kubeconfig, or where it is to be written; "" = not given."""
    bootstrap: str
    """The kubeconfig with which the node asks for its own; "" = not given."""
    none: bool
    """Whether the node leaves its cluster."""


@dataclass(frozen=True)
class UpRequest:
    """The options of `up`."""

    flags: Mapping[str, Any]
    """The node's settings by their names in the table of settings, except the kubeconfig."""
    cluster: Kubeconfigs
    filenames: Sequence[str]
    namespace: str
    """The namespace of manifests that name none; "" = ``default``."""
    ports: local_processes.Ports
    timeout: str
    """How long the pods may take, as given."""
    embedded: bool
    simulate: bool


@dataclass(frozen=True)
class CheckedStart:
    """What is started, after all checks."""

    wanted: UpRequest
    flags: Mapping[str, Any]
    """The flags of the request, with the kubeconfig."""
    manifests: Manifests
    patience: timedelta | None
    here: NodeSettings
    worker: WorkerRecord | None
    """The worker that served the node when the settings were read."""
    choice: Choice


def checked_start(wanted: UpRequest) -> CheckedStart:
    """Check the options against this machine, and join the cluster of a bootstrap kubeconfig; nothing is started yet.

    Raises BadInput, and Failure.
    """
    manifests = admitted(wanted.filenames, wanted.namespace) if wanted.filenames else Manifests([], [])
    given, cluster = wanted.flags, wanted.cluster
    kubeconfig = cluster_of(cluster.bootstrap, cluster.own, given["node"], given["state_dir"])
    flags = {**given, "kubeconfig": path_setting(kubeconfig, none=cluster.none)}
    patience = read_timeout(wanted.timeout)
    here, worker, choice = _read(wanted, flags, manifests)
    return CheckedStart(wanted, flags, manifests, patience, here, worker, choice)


def start_all(start: CheckedStart) -> None:
    """Start what does not run, apply the manifests, and print what to do next. Raises Failure.

    If another command has started the node's worker since the settings were read, they are read again, since those of
    the last start hold. On Ctrl-C, prints which processes are running, and exits.
    """
    here, manifests, ports = start.here, start.manifests, start.wanted.ports
    admissions = manifests.pods
    begun = False
    try:
        followed = kept_settings(here.state_dir).variables.get(MANIFEST_DIR.variable, "")
        try:
            server, running = _processes(here, start.choice, ports)
        except Failure:
            if serving(here.state_dir) == start.worker:
                raise
            here, _, choice = _read(start.wanted, start.flags, manifests)
            server, running = _processes(here, choice, ports)
        if not (server.started or running.started):
            remark("Everything runs already")
        print_running(here, server, running)
        if followed and not running.worker.manifest_dir:
            remark(not_followed(followed))
        if note := notice.note(server.config, running.worker):
            remark(note)
        if admissions or manifests.objects:
            say()
        if admissions:
            begun = True
            asyncio.run(_bring_up(server.config, manifests, here, running.worker.node, start.patience))
        else:
            keep(manifests, here)
    except KeyboardInterrupt:
        what = how_to_go_on(admissions) if begun else what_runs(here, admissions)
        remark("\n".join(["", *exports(here, None), what]))
        raise typer.Exit(INTERRUPTED) from None
    print_next_steps(here, server, admissions)


def _read(
    wanted: UpRequest, flags: Mapping[str, Any], manifests: Manifests
) -> tuple[NodeSettings, WorkerRecord | None, Choice]:
    """Return the node's checked settings, the worker that served it then, and the runtime to use.

    Raises Failure and BadInput.
    """
    here = settings(**flags)
    worker = serving(here.state_dir)
    here = checked(here, manifests, memory_is_named=bool(flags["memory_dir"]), guard=wanted.ports.guard)
    asked = flags["runtime_endpoint"]
    return here, worker, choose(here, asked=asked, embedded=wanted.embedded, simulate=wanted.simulate)


def _processes(
    here: NodeSettings, choice: Choice, ports: local_processes.Ports
) -> tuple[local_processes.Server, local_processes.LocalNode]:
    """Start the server, the runtime and the worker, each if it does not run. Raises Failure."""
    server = local_processes.start_server(here, ports)
    return server, local_processes.start_node(here, choice, server)


async def _bring_up(
    config: ClientConnectConfig, manifests: Manifests, here: NodeSettings, node: str, patience: timedelta | None
) -> None:
    """Apply the manifests, wait until their pods have settled, and print the pods. Raises Failure."""
    client = await session.connect(config, here.state_dir)
    try:
        pods = await without_known(client, manifests.pods)
        nodes = await refuse_cordoned(client, [admission.pod for admission in pods], node)
        await refuse_unenforced(client, [admission.pod for admission in pods], node, nodes)
    except BadInput as wrong:  # not BadInput, since processes have been started
        raise Failure(str(wrong)) from None
    keep(manifests, here)
    applied = await apply_all(client, pods, node, nodes)

    def gives_up(pod: Pod) -> bool:
        return patience is None and lacks_image(pod)

    with Progress(last_words=last_words) as progress:
        outcomes = await until_settled(client, applied, timeout=patience, show=progress.show, gives_up=gives_up)
    say()
    say("\n".join(coloured_lines(HEADER, [row_of(fetched.listed) for _, fetched, _ in outcomes if fetched])))
    _, bad = sentences(outcomes, patience)
    given_up = [fetched.pod.metadata.name for _, fetched, _ in outcomes if fetched and gives_up(fetched.pod)]
    if given_up:
        remark(
            "The node keeps trying to pull the images: "
            f"`{shlex.quote(program())} wait pod {' '.join(given_up)} --for condition=Ready` waits for them, "
            "as does --timeout; a corrected manifest can be applied over this one"
        )
    if bad:
        raise Failure("\n".join(bad))
