"""``syncpod up``: start everything that pods need on this machine, and apply pods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import INTERRUPTED
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
from syncpod.cli.machine.settings import path_setting
from syncpod.settings import table
from syncpod.settings.setting import Setting


def _setting(
    setting: Setting[Any], *, help: str = "", metavar: str | None = None, show_default: str = "", envvar: bool = True
) -> Any:
    """Return the option of a setting, with the setting's help, placeholder and default where no others are given."""
    return typer.Option(
        setting.flag,
        metavar=metavar or setting.metavar,
        help=help or _sentence(setting.help),
        envvar=setting.variable if envvar else None,
        show_envvar=False,
        show_default=show_default or bool(setting.switch) or setting.default or False,
    )


def _none(setting: Setting[Any]) -> Any:
    """Return the option that takes a setting back."""
    return typer.Option(setting.none, help=_sentence(setting.none_help))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


RuntimeEndpoint = Annotated[
    str,
    _setting(
        table.RUNTIME_ENDPOINT,
        help="The CRI socket.",
        metavar="SOCKET",
        show_default="the usual ones, else the embedded runtime",
        envvar=False,
    ),
]
Embedded = Annotated[bool, typer.Option("--embedded", help="Use the embedded runtime, even if another is there.")]
Simulate = Annotated[
    bool, typer.Option("--simulate", help="Use the embedded runtime, with timers instead of processes.")
]
MemoryDir = Annotated[
    str,
    _setting(table.MEMORY_DIR, help="Where Secrets are kept.", metavar="DIR", show_default="a directory in memory"),
]
ManifestsDir = Annotated[str, _setting(table.MANIFEST_DIR)]
NoManifests = Annotated[bool, _none(table.MANIFEST_DIR)]
KubeconfigFile = Annotated[
    str,
    _setting(
        table.KUBECONFIG,
        help="Be part of a Kubernetes cluster, as the node that this kubeconfig identifies, and run the pods that it "
        "binds here.",
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
NoKubeconfig = Annotated[bool, _none(table.KUBECONFIG)]
NodeLabels = Annotated[
    str | None,
    _setting(
        table.NODE_LABELS,
        help="Labels of the node, which a pod's nodeSelector and node affinity ask for; empty = none any more.",
        show_default="those that it was started with",
        envvar=False,
    ),
]
PodMaxPids = Annotated[
    str,
    _setting(
        table.POD_MAX_PIDS,
        help="How many processes and threads one pod may have; -1 = no limit of its own.",
        show_default="what it was started with, else -1",
        envvar=False,
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
    _setting(
        table.KEEP_SECRETS,
        help="Keep encrypted copies of a Kubernetes cluster's Secrets and tokens on disk, so that pods start after a "
        "reboot while its API server is away.",
    ),
]
Encrypt = Annotated[
    bool, _setting(table.ENCRYPT, help="Encrypt what goes to Temporal with the key in the state directory.")
]
MetricsAddress = Annotated[
    str | None,
    _setting(
        table.METRICS_ADDRESS,
        help="Serve metrics, health and, to its owner, pods there over HTTP; empty = no more.",
        metavar="[HOST]:PORT",
        show_default="as it was started with",
        envvar=False,
    ),
]
JournalAge = Annotated[str, _setting(table.JOURNAL_AGE)]
JournalSize = Annotated[
    str, _setting(table.JOURNAL_SIZE, help="How large the node's journal may become; then the oldest records go.")
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
    flags: dict[str, Any] = {
        "node": node, "state_dir": state_dir, "memory_dir": memory_dir, "runtime_endpoint": runtime_endpoint,
        "manifest_dir": path_setting(manifests_dir, none=no_manifests), "node_labels": node_labels,
        "pod_max_pids": pod_max_pids, "adopt_cluster": adopt_cluster, "keep_secrets": keep_secrets or None,
        "encrypt": encrypt or None, "metrics_address": metrics_address, "journal_age": journal_age,
        "journal_size": journal_size,
    }  # fmt: skip
    with _nothing_started():
        from syncpod.cli.actions.up import Kubeconfigs, UpRequest, checked_start, start_all
        from syncpod.cli.local_processes import Ports

        cluster = Kubeconfigs(kubeconfig, bootstrap_kubeconfig, none=no_kubeconfig)
        ports = Ports(port, ui_port, ui, guard)
        wanted = UpRequest(
            flags, cluster, filename or [], namespace, ports, timeout, embedded=embedded, simulate=simulate
        )
        start = checked_start(wanted)
    start_all(start)


@contextlib.contextmanager
def _nothing_started() -> Iterator[None]:
    """On Ctrl-C in the block, print that nothing was started, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        remark("\nNothing was started.")
        raise typer.Exit(INTERRUPTED) from None
