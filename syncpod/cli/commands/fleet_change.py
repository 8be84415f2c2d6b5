"""``syncpod fleet apply``, ``cordon``, ``uncordon``: change what a fleet's nodes run."""

from __future__ import annotations

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import node_names, read_apply
from syncpod.cli.input.options import (
    DryRun,
    Filenames,
    Kustomize,
    ManifestNamespace,
    NodeNames,
    Recursive,
    StateDir,
    Timeout,
    UntilUp,
)


def apply(
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    wait: UntilUp = False,
    timeout: Timeout = "5m",
    dry_run: DryRun = "none",
    recursive: Recursive = False,
    kustomize: Kustomize = "",
    state_dir: StateDir = "",
) -> None:
    """Run pods, Deployments and DaemonSets (apps/v1) on the fleet's nodes, with their ConfigMaps and Secrets.

    The fleet chooses a node for each pod by its affinity, tolerations, spread and requests. A pod with a
    `spec.nodeName` runs on that node. A new template is rolled out pod by pod; if one of its pods fails, the fleet
    rolls back to the last good template by itself. Nodes keep their pods running even while the fleet cannot be
    reached. A ConfigMap or Secret goes only to nodes with pods that refer to it. A warning names each image that is not
    loaded on a node with the embedded runtime: such a node pulls nothing.

    With `--wait`, the command waits until each rollout has ended, as `fleet rollout status` does, and until each pod is
    ready or has finished. With `--dry-run=client`, the manifests are checked here and compared with what the fleet has.
    """
    filename = filename or []
    mark, patience = read_apply("fleet apply", filename, kustomize, dry_run=dry_run, wait=wait, timeout=timeout)
    if dry_run == "server":
        raise BadInput(
            "--dry-run=server: a fleet cannot say what it would refuse without doing it: --dry-run=client checks the "
            "manifests and compares them, and `syncpod fleet explain --placement` shows which nodes have room"
        )
    from syncpod.cli.input.fleet_manifests import fleet_manifests

    manifests = fleet_manifests(filename, namespace, recursive=recursive)
    if mark:
        from syncpod.cli.actions.fleet_apply import try_manifests

        try_manifests(manifests, mark, state_dir)
    else:
        from syncpod.cli.actions.fleet_apply import apply_manifests

        apply_manifests(manifests, patience, state_dir, wait=wait)


def cordon(nodes: NodeNames, state_dir: StateDir = "") -> None:
    """Place no new pods on these nodes. Existing pods keep running."""
    names = node_names(nodes)

    from syncpod.cli.actions.fleet_change import set_nodes_schedulable

    set_nodes_schedulable(names, "cordon", state_dir)


def uncordon(nodes: NodeNames, state_dir: StateDir = "") -> None:
    """Place new pods on these nodes again."""
    names = node_names(nodes)

    from syncpod.cli.actions.fleet_change import set_nodes_schedulable

    set_nodes_schedulable(names, "uncordon", state_dir)
