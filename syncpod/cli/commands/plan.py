"""``syncpod plan``: show what would be done."""

from __future__ import annotations

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names, require_json
from syncpod.cli.input.options import (
    Filenames,
    IgnoreOtherKinds,
    ManifestNamespace,
    Node,
    OnlyJson,
    PodNames,
    Recursive,
)


def plan(
    what: PodNames = None,
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    output: OnlyJson = "",
    recursive: Recursive = False,
    ignore_other_kinds: IgnoreOtherKinds = False,
    node: Node = "",
) -> None:
    """Show what an apply would do, without doing it.

    For a new pod, this also shows whether its node would run it: whether the node has room beside the pods that come
    earlier in the manifests, and supports the pod's fields. A warning names a node that does not answer. ConfigMaps and
    Secrets count as they are on this machine now.

    With names of pods instead of manifests, it shows what is about to be done for these pods.
    """
    names = pod_names(what or [])
    if bool(names) == bool(filename):
        raise BadInput("name a manifest with -f FILE, or pods that exist")
    require_json(output)
    if not filename:
        from syncpod.cli.actions.plan_existing import plan_existing

        plan_existing(namespace or "default", names, output)
        return
    from syncpod.cli.input.manifests import admitted

    manifests = admitted(filename, namespace, recursive=recursive, ignore_other_kinds=ignore_other_kinds)
    from syncpod.cli.actions.plan import plan_manifests

    plan_manifests(manifests, node, output)
