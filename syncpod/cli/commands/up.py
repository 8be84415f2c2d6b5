"""``syncpod up``: start everything that pods need on this machine, and apply pods."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.cli.commands.apply import apply_all
from syncpod.cli.commands.up_checks import checked, cluster_of
from syncpod.cli.commands.up_texts import exports, how_to_go_on, not_followed, tell, tell_what_next, what_runs
from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import INTERRUPTED, BadInput, Failure
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.manifests import Manifests, admitted
from syncpod.cli.input.options import (
    Filenames,
    ManifestNamespace,
    Node,
    ServerGuard,
    ServerPort,
    ServerUi,
    ServerUiPort,
    StateDir,
    Timeout,
)
from syncpod.settings.variables import MANIFEST_DIR

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

    from syncpod.cli import local_processes
    from syncpod.cli.machine.runtime_choice import Choice
    from syncpod.pod import Pod
    from syncpod.settings.node import NodeSettings
    from syncpod.settings.worker_record import WorkerRecord


RuntimeEndpoint = Annotated[
    str,
    typer.Option(
        "--runtime-endpoint",
        metavar="SOCKET",
        help="The CRI socket.",
        show_default="the usual ones, else the embedded runtime",
    ),
]
Embedded = Annotated[bool, typer.Option("--embedded", help="Use the embedded runtime, even if another is there.")]
Simulate = Annotated[
    bool, typer.Option("--simulate", help="Use the embedded runtime, with timers instead of processes.")
]
MemoryDir = Annotated[
    str,
    typer.Option(
        "--memory-dir",
        metavar="DIR",
        help="Where Secrets are kept.",
        envvar="SYNCPOD_MEMORY_DIR",
        show_envvar=False,
        show_default="a directory in memory",
    ),
]
ManifestsDir = Annotated[
    str,
    typer.Option(
        "--manifests",
        metavar="DIR",
        help="A directory of manifests, one pod each, that the node keeps running.",
        envvar="SYNCPOD_MANIFEST_DIR",
        show_envvar=False,
        show_default=False,
    ),
]
NoManifests = Annotated[
    bool,
    typer.Option("--no-manifests", help="Follow no directory of manifests any more; its pods stay as they are."),
]
KubeconfigFile = Annotated[
    str,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Be part of a Kubernetes cluster, as the node that this kubeconfig identifies, and run the pods that it "
        "binds here.",
        envvar="SYNCPOD_KUBECONFIG",
        show_envvar=False,
        show_default=False,
    ),
]
BootstrapKubeconfig = Annotated[
    str,
    typer.Option(
        "--bootstrap-kubeconfig",
        metavar="FILE",
        help="Join a Kubernetes cluster: ask it for a certificate with the identity of this kubeconfig, wait until it "
        "is approved, and be part of the cluster with it. --kubeconfig names the file that the node's own becomes.",
        show_default=False,
    ),
]
NoKubeconfig = Annotated[
    bool,
    typer.Option("--no-kubeconfig", help="Be part of no cluster any more; its pods stay as they are."),
]
NodeLabels = Annotated[
    str | None,
    typer.Option(
        "--node-labels",
        metavar="KEY=VALUE,...",
        help="Labels of the node, which a pod's nodeSelector and node affinity ask for; empty = none any more.",
        show_default="those that it was started with",
    ),
]
PodMaxPids = Annotated[
    str,
    typer.Option(
        "--pod-max-pids",
        metavar="N",
        help="How many processes and threads one pod may have; -1 = no limit of its own.",
        show_default="what it was started with, else -1",
    ),
]
AdoptCluster = Annotated[
    bool,
    typer.Option(
        "--adopt-cluster", help="Use this Temporal server from now on, although another one has the node's pods."
    ),
]

KeepSecrets = Annotated[
    bool,
    typer.Option(
        "--keep-secrets",
        help="Keep encrypted copies of a Kubernetes cluster's Secrets and tokens on disk, so that pods start after a "
        "reboot while its API server is away.",
        envvar="SYNCPOD_KEEP_SECRETS",
        show_envvar=False,
    ),
]
Encrypt = Annotated[
    bool,
    typer.Option(
        "--encrypt",
        help="Encrypt what goes to Temporal with the key in the state directory.",
        envvar="SYNCPOD_ENCRYPT",
        show_envvar=False,
    ),
]

MetricsAddress = Annotated[
    str | None,
    typer.Option(
        "--metrics-address",
        metavar="[HOST]:PORT",
        help="Serve metrics, health and, to its owner, pods there over HTTP; empty = no more.",
        show_default="as it was started with",
    ),
]

JournalAge = Annotated[
    str,
    typer.Option(
        "--journal-age",
        metavar="DURATION",
        help="How long the node's journal keeps what happened: 90d, 36h; 0 = for ever.",
        envvar="SYNCPOD_JOURNAL_AGE",
        show_envvar=False,
        show_default="90d",
    ),
]
JournalSize = Annotated[
    str,
    typer.Option(
        "--journal-size",
        metavar="SIZE",
        help="How large the node's journal may become; then the oldest records go.",
        envvar="SYNCPOD_JOURNAL_SIZE",
        show_envvar=False,
        show_default="256Mi",
    ),
]


def up(
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    node: Node = "",
    state_dir: StateDir = "",
    runtime_endpoint: RuntimeEndpoint = "",
    embedded: Embedded = False,
    simulate: Simulate = False,
    memory_dir: MemoryDir = "",
    manifests_dir: ManifestsDir = "",
    no_manifests: NoManifests = False,
    kubeconfig: KubeconfigFile = "",
    bootstrap_kubeconfig: BootstrapKubeconfig = "",
    no_kubeconfig: NoKubeconfig = False,
    node_labels: NodeLabels = None,
    pod_max_pids: PodMaxPids = "",
    adopt_cluster: AdoptCluster = False,
    port: ServerPort = None,
    ui: ServerUi = False,
    ui_port: ServerUiPort = None,
    keep_secrets: KeepSecrets = False,
    encrypt: Encrypt = False,
    journal_age: JournalAge = "",
    journal_size: JournalSize = "",
    guard: ServerGuard = False,
    metrics_address: MetricsAddress = None,
    timeout: Timeout = "0",
) -> None:
    """Start server, runtime and worker, and bring pods up.

    It starts what is not running: a Temporal dev server, unless the environment or temporal.toml names another; the
    embedded runtime, if neither containerd nor CRI-O answers; and a worker. They and the pods keep running when this
    command ends. The settings of the node's last start hold until `syncpod down` has ended its pods: its name, its
    runtime, its Temporal server, its directories, its capacity, its labels, its limit of processes, its metrics
    address, the form of its log and its journal's limits. Name and runtime cannot change while the node has pods. The
    command returns when the pods are ready or have finished. Without --timeout it does not wait for an image that
    cannot be pulled: it ends with exit code 1 and the reason, and the node goes on trying.
    """
    with _nothing_started():
        made = _manifests(filename, namespace)
        read = partial(
            _read,
            node=node,
            state_dir=state_dir,
            memory_dir=memory_dir,
            runtime_endpoint=runtime_endpoint,
            manifest_dir=_path_setting(manifests_dir, none=no_manifests),
            kubeconfig=_path_setting(cluster_of(bootstrap_kubeconfig, kubeconfig, node, state_dir), none=no_kubeconfig),
            node_labels=node_labels,
            pod_max_pids=pod_max_pids,
            adopt_cluster=adopt_cluster,
            keep_secrets=keep_secrets or None,
            encrypt=encrypt or None,
            metrics_address=metrics_address,
            journal_age=journal_age,
            journal_size=journal_size,
        )
    choose = partial(_choice, asked=runtime_endpoint, embedded=embedded, simulate=simulate)
    _start(read, choose, made, read_timeout(timeout), _ports(port, ui_port, ui, guard))


@contextlib.contextmanager
def _nothing_started() -> Iterator[None]:
    """On Ctrl-C in the block, print that nothing was started, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        remark("\nNothing was started.")
        raise typer.Exit(INTERRUPTED) from None


def _path_setting(path: str, *, none: bool) -> str | None:
    """Return a path's setting: the absolute path, "" with `none` (unset it), or None without a path (keep it)."""
    return "" if none else str(Path(path).absolute()) if path else None


def _ports(server: int | None, ui_port: int | None, ui: bool, guard: bool) -> local_processes.Ports:
    from syncpod.cli import local_processes

    return local_processes.Ports(server, ui_port, ui, guard)


def _read(manifests: Manifests, guard: bool, **flags: Any) -> tuple[NodeSettings, WorkerRecord | None]:
    """Return the node's checked settings, given flags, and the worker that served it then. Raises Failure, BadInput."""
    from syncpod.cli.machine.settings import settings
    from syncpod.settings.worker_record import serving

    here = settings(**flags)
    worker = serving(here.state_dir)
    return checked(here, manifests, memory_is_named=bool(flags["memory_dir"]), guard=guard), worker


def _manifests(filename: list[str] | None, namespace: str) -> Manifests:
    """Return the admitted manifests. Raises BadInput."""
    return admitted(filename, namespace) if filename else Manifests([], [])


def _choice(here: NodeSettings, *, asked: str, embedded: bool, simulate: bool) -> Choice:
    """Return the runtime to use. Raises Failure and BadInput."""
    from syncpod.cli.machine.runtime_choice import choose

    return choose(here, asked=asked, embedded=embedded, simulate=simulate)


def _start(
    read: Callable[[Manifests, bool], tuple[NodeSettings, WorkerRecord | None]],
    choose: Callable[[NodeSettings], Choice],
    manifests: Manifests,
    patience: timedelta | None,
    ports: local_processes.Ports,
) -> None:
    """Start what does not run, apply the manifests, and print what to do next. Raises Failure.

    If another command has started the node's worker since the settings were read, they are read again, since those of
    the last start hold. On Ctrl-C, prints which processes are running, and exits.
    """
    import asyncio

    from syncpod.cli.machine.object_apply import keep
    from syncpod.cli.machine.settings import kept_settings
    from syncpod.cli.orphans import notice
    from syncpod.settings.worker_record import serving

    with _nothing_started():
        here, worker = read(manifests, ports.guard)
        choice = choose(here)
    admissions = manifests.pods
    begun = False
    try:
        followed = kept_settings(here.state_dir).variables.get(MANIFEST_DIR, "")
        try:
            server, running = _processes(here, choice, ports)
        except Failure:
            if serving(here.state_dir) == worker:
                raise
            here, _ = read(manifests, ports.guard)
            server, running = _processes(here, choose(here), ports)
        if not (server.started or running.started):
            remark("Everything runs already")
        tell(here, server, running)
        if followed and not running.worker.manifest_dir:
            remark(not_followed(followed))
        if note := notice.note(server.config, running.worker):
            remark(note)
        if admissions or manifests.objects:
            say()
        if admissions:
            begun = True
            asyncio.run(_bring_up(server.config, manifests, here, running.worker.node, patience))
        else:
            keep(manifests, here)
    except KeyboardInterrupt:
        what = how_to_go_on(admissions) if begun else what_runs(here, admissions)
        remark("\n".join(["", *exports(here, None), what]))
        raise typer.Exit(INTERRUPTED) from None
    tell_what_next(here, server, admissions)


def _processes(
    here: NodeSettings, choice: Choice, ports: local_processes.Ports
) -> tuple[local_processes.Server, local_processes.LocalNode]:
    """Start the server, the runtime and the worker, each if it does not run. Raises Failure."""
    from syncpod.cli import local_processes

    server = local_processes.start_server(here, ports)
    return server, local_processes.start_node(here, choice, server)


async def _bring_up(
    config: ClientConnectConfig, manifests: Manifests, here: NodeSettings, node: str, patience: timedelta | None
) -> None:
    from syncpod.api.views.pod_columns import HEADER
    from syncpod.cli.machine.kept_logs import last_words
    from syncpod.cli.machine.object_apply import keep
    from syncpod.cli.temporal import session
    from syncpod.cli.temporal.ephemeral_containers import without_known
    from syncpod.cli.temporal.foresight import refuse_unenforced
    from syncpod.cli.temporal.pod_apply import refuse_cordoned
    from syncpod.cli.temporal.pod_waits import lacks_image, sentences, until_settled
    from syncpod.cli.view.progress import Progress
    from syncpod.cli.view.rows import coloured_lines, row_of

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
