"""``syncpod fleet apply``, ``cordon``, ``uncordon``: change what a fleet's nodes run."""

from __future__ import annotations

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import node_names
from syncpod.cli.input.options import Filenames, ManifestNamespace, NodeNames, StateDir


def apply(filename: Filenames = None, namespace: ManifestNamespace = "", state_dir: StateDir = "") -> None:
    """Run pods, Deployments and DaemonSets (apps/v1) on the fleet's nodes, with their ConfigMaps and Secrets.

    The fleet chooses a node for each pod by its affinity, tolerations, spread and requests. A pod with a
    `spec.nodeName` runs on that node. A new template is rolled out pod by pod; if one of its pods fails, the fleet
    rolls back to the last good template by itself. Nodes keep their pods running even while the fleet cannot be
    reached. A ConfigMap or Secret goes only to nodes with pods that refer to it. A warning names each image that is not
    loaded on a node with the embedded runtime: such a node pulls nothing.
    """
    if not filename:
        raise BadInput("--filename: required: the manifests to apply")

    from syncpod.cli.actions.fleet_change import apply_manifests

    apply_manifests(filename, namespace, state_dir)


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
