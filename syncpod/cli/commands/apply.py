"""``syncpod apply`` and ``syncpod fleet apply``: create or change what manifests have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_dry_run, read_timeout
from syncpod.cli.input.contexts import InFleet, OnlyFleet, OnlyNode
from syncpod.cli.input.options import (
    DryRun,
    Filenames,
    IgnoreOtherKinds,
    Kustomize,
    ManifestNamespace,
    Node,
    Recursive,
    StateDir,
    Timeout,
    UntilUp,
)


@dataclass(frozen=True)
class ApplyOptions:
    """The options of `apply` and `fleet apply`."""

    filename: Filenames = None
    namespace: ManifestNamespace = ""
    wait: UntilUp = False
    timeout: Timeout = "5m"
    node: OnlyNode[Node] = ""
    dry_run: Annotated[DryRun, InFleet(metavar="none|client")] = "none"
    recursive: Recursive = False
    ignore_other_kinds: OnlyNode[IgnoreOtherKinds] = False
    kustomize: Kustomize = ""
    state_dir: OnlyFleet[StateDir] = ""


def apply(given: ApplyOptions) -> None:
    """Create or change pods, ConfigMaps and Secrets.

    A pod may change as Kubernetes lets it change: images, CPU and memory (see `resize`), labels, annotations,
    activeDeadlineSeconds, added tolerations. It becomes what the manifest has: labels and annotations that the manifest
    lacks are removed. Takes what `kubectl get -o yaml` prints. Every document is checked before anything is done.

    ConfigMaps and Secrets are kept on this machine, for the pods of its node. Secrets are kept in memory: apply them
    again after a reboot. Neither is ever sent to the Temporal server.

    With `--dry-run=client`, manifests are checked here and compared with the existing objects. With `--dry-run=server`,
    the pods' workflows also report what they would refuse, and nodes whether they would run the new pods. A node that
    does not answer is named in a warning: the pod would be created, and start when the node is back. `plan` shows the
    steps. A new pod whose limits its node cannot enforce is refused. A pod with a field that its node's runtime does
    not support is created, with a warning, and waits.
    """
    filename, mark, patience = _checked(given, "apply")

    from syncpod.cli.input.manifests import admitted

    manifests = admitted(
        filename, given.namespace, recursive=given.recursive, ignore_other_kinds=given.ignore_other_kinds
    )
    if mark:
        from syncpod.cli.actions.apply_dry_run import try_manifests

        try_manifests(manifests, given.node, mark, asks=given.dry_run == "server")
    else:
        from syncpod.cli.actions.apply import apply_manifests

        apply_manifests(manifests, given.node, patience, wait=given.wait)


def fleet_apply(given: ApplyOptions) -> None:
    """Run pods, Deployments and DaemonSets (apps/v1) on the fleet's nodes, with their ConfigMaps and Secrets.

    The fleet chooses a node for each pod by its affinity, tolerations, spread and requests. A pod with a
    `spec.nodeName` runs on that node. A new template is rolled out pod by pod; if one of its pods fails, the fleet
    rolls back to the last good template by itself. Nodes keep their pods running even while the fleet cannot be
    reached. A ConfigMap or Secret goes only to nodes with pods that refer to it. A warning names each image that is not
    loaded on a node with the embedded runtime: such a node pulls nothing.

    With `--wait`, the command waits until each rollout has ended, as `fleet rollout status` does, and until each pod is
    ready or has finished. With `--dry-run=client`, the manifests are checked here and compared with what the fleet has.
    """
    filename, mark, patience = _checked(given, "fleet apply")
    if given.dry_run == "server":
        raise BadInput(
            "--dry-run=server: a fleet cannot say what it would refuse without doing it: --dry-run=client checks the "
            "manifests and compares them, and `syncpod fleet explain --placement` shows which nodes have room"
        )
    from syncpod.cli.input.fleet_manifests import fleet_manifests

    manifests = fleet_manifests(filename, given.namespace, recursive=given.recursive)
    if mark:
        from syncpod.cli.actions.fleet_apply import try_manifests

        try_manifests(manifests, mark, given.state_dir)
    else:
        from syncpod.cli.actions.fleet_apply import apply_manifests

        apply_manifests(manifests, patience, given.state_dir, wait=given.wait)


def _checked(given: ApplyOptions, typed: str) -> tuple[list[str], str, timedelta | None]:
    """Return the manifests, the mark of a dry run as `read_dry_run`, and how long ``--wait`` waits. Raises BadInput."""
    if given.kustomize:
        raise BadInput(
            f"-k: kustomizations are not built here: kubectl kustomize {given.kustomize} | syncpod {typed} -f -"
        )
    if not given.filename:
        raise BadInput("name a manifest with -f FILE, a directory with -f DIR, or standard input with -f -")
    patience = read_timeout(given.timeout)
    mark = read_dry_run(given.dry_run)
    if mark and given.wait:
        raise BadInput("either --dry-run or --wait: a dry run does nothing to wait for")
    return given.filename, mark, patience
