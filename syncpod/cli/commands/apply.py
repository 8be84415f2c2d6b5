"""``syncpod apply``: create or change pods, ConfigMaps and Secrets."""

from __future__ import annotations

from syncpod.cli.input.arguments import read_apply
from syncpod.cli.input.options import (
    DryRun,
    Filenames,
    IgnoreOtherKinds,
    Kustomize,
    ManifestNamespace,
    Node,
    Recursive,
    Timeout,
    UntilUp,
)


def apply(
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    wait: UntilUp = False,
    timeout: Timeout = "5m",
    node: Node = "",
    dry_run: DryRun = "none",
    recursive: Recursive = False,
    ignore_other_kinds: IgnoreOtherKinds = False,
    kustomize: Kustomize = "",
) -> None:
    """Create or change pods, ConfigMaps and Secrets.

    A pod may change as Kubernetes lets it change: images, CPU and memory (see `resize`), labels, annotations,
    activeDeadlineSeconds, added tolerations. Takes what `kubectl get -o yaml` prints. Every document is checked before
    anything is done.

    ConfigMaps and Secrets are kept on this machine, for the pods of its node. Secrets are kept in memory: apply them
    again after a reboot. Neither is ever sent to the Temporal server.

    With `--dry-run=client`, manifests are checked here and compared with the existing objects. With `--dry-run=server`,
    the pods' workflows also report what they would refuse, and nodes whether they would run the new pods. A node that
    does not answer is named in a warning: the pod would be created, and start when the node is back. `plan` shows the
    steps. A new pod whose limits its node cannot enforce is refused. A pod with a field that its node's runtime does
    not support is created, with a warning, and waits.
    """
    filename = filename or []
    mark, patience = read_apply("apply", filename, kustomize, dry_run=dry_run, wait=wait, timeout=timeout)

    from syncpod.cli.input.manifests import admitted

    manifests = admitted(filename, namespace, recursive=recursive, ignore_other_kinds=ignore_other_kinds)
    if mark:
        from syncpod.cli.actions.apply_dry_run import try_manifests

        try_manifests(manifests, node, mark, asks=dry_run == "server")
    else:
        from syncpod.cli.actions.apply import apply_manifests

        apply_manifests(manifests, node, patience, wait=wait)
