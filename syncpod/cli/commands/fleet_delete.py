"""``syncpod fleet delete``: delete workloads, pods, ConfigMaps and Secrets, and wait until they are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import remark, say, warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.fleet_manifests import named_in
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import OBJECTS, PODS
from syncpod.cli.input.options import Filenames, IgnoreNotFound, ManifestNamespace, StateDir, Things, Timeout, UntilGone

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.temporal.fleet_deletion import Going

_KNOWN = "deployment, daemonset, pod, configmap or secret"


def delete(
    what: Things = None,
    filename: Filenames = None,
    namespace: ManifestNamespace = "",
    force: Annotated[
        bool, typer.Option("--force", help="Count pods as gone even if an unreachable node may still run them.")
    ] = False,
    node: Annotated[
        str, typer.Option("--node", metavar="NODE", help="Delete pods only there.", show_default="all nodes")
    ] = "",
    wait: UntilGone = True,
    timeout: Timeout = "0",
    ignore_not_found: IgnoreNotFound = False,
    state_dir: StateDir = "",
) -> None:
    """Delete workloads, pods, ConfigMaps and Secrets of the fleet, on all nodes.

    Name them as with kubectl: `deployment web`, `daemonset logs`, `pod web`, or `deployment/web secret/keys`, or with
    the manifests that were applied. Names alone are of pods: if one of several is unknown, none is deleted.

    A workload is gone once its last pod is, and a ConfigMap or Secret once its nodes know of it. After five
    seconds the command says on standard error what it waits for. The deletion goes on even if the command ends.

    A node that cannot be reached ends its pods when it is back. Until then they count as ending. With `--force` they
    count as gone at once, which is meant for nodes that never come back. If such a node is in fact still running, so
    are its pods, beside those that replace them.
    """
    from syncpod.cli.temporal import fleet, fleet_deletion, fleet_pod_changes, fleet_workloads

    if bool(what) == bool(filename):
        raise BadInput("say what to delete, in one of these ways: KIND NAME, or -f FILE")
    if filename:
        named, bare = named_in(filename, namespace), list[str]()
    else:
        named, bare = _named(what or [], {**fleet_workloads.KINDS, **OBJECTS, **PODS}, namespace)
    _check(named, node, force=force)
    patience = read_timeout(timeout)

    async def work(client: Client) -> None:
        missing: list[str] = []
        going: list[Going] = []
        _require(await fleet_pod_changes.unknown(client, namespace or "default", [] if ignore_not_found else bare))
        for kind, space, name in named:
            if kind == "Pod":
                found = await _delete_pod(client, name, space, node.rpartition("/")[2], force=force)
            else:
                found = await _delete_thing(client, kind, space, name)
            going += found
            missing += [] if found else [f'{_plural(kind)} "{name}" not found in the fleet']
        if wait:
            await fleet_deletion.until_gone(going, patience)
        if missing and not ignore_not_found:
            raise Failure("\n".join(missing))

    fleet.run(work, state_dir=state_dir)


def _named(
    words: Sequence[str], kinds: Mapping[str, str], namespace: str
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return kind, namespace and name of each thing named; and the names, if they are several and have no kind.

    The first of those may be a kind that is misspelt. Raises BadInput.
    """
    named = fleet_names(words, kinds, _KNOWN, bare="Pod")
    if not all(named.values()):
        raise BadInput("NAME: required: what to delete")
    found = [(kind, namespace or "default", name) for kind, names in named.items() for name in names]
    has_kind = words[0].lower() in kinds or any("/" in word for word in words)
    return found, [] if has_kind or len(found) == 1 else [name for _, _, name in found]


def _check(named: Sequence[tuple[str, str, str]], node: str, *, force: bool) -> None:
    """Raise BadInput if a flag is not for what is named."""
    for kind, _, _ in named:
        if force and kind != "Pod":
            raise BadInput(f"--force: is for pods, not for a {kind}")
        if node and kind != "Pod":
            raise BadInput(f"--node: is for pods, not for a {kind}")


def _require(unknown: Sequence[str]) -> None:
    """Raise Failure if names without a kind are unknown: the first of them may be a kind that is misspelt."""
    if unknown:
        lines = [f'pods "{name}" not found in the fleet' for name in unknown]
        raise Failure("\n".join([*lines, f"nothing was deleted: a kind before names is one of {_KNOWN}"]))


def _plural(kind: str) -> str:
    """Return the name of a kind in kubectl's words: `deployments.apps`."""
    return f"{kind.lower()}s" if kind in ("Pod", "ConfigMap", "Secret") else f"{kind.lower()}s.apps"


async def _delete_thing(client: Client, kind: str, namespace: str, name: str) -> list[Going]:
    """Delete a workload, ConfigMap or Secret; return what is going then: nothing, if there is none. Raises Failure."""
    from syncpod.cli.temporal import fleet_deletion, fleet_objects, fleet_workloads

    is_object = kind in OBJECTS.values()
    delete_it = fleet_objects.delete if is_object else fleet_workloads.delete
    if not await delete_it(client, kind, namespace, name):
        return []
    say(f'{kind.lower() if is_object else f"{kind.lower()}.apps"} "{name}" deleted from {namespace} namespace')
    going = fleet_deletion.fleet_object if is_object else fleet_deletion.workload
    return [going(client, kind, namespace, name)]


async def _delete_pod(client: Client, name: str, namespace: str, on: str, *, force: bool) -> list[Going]:
    """Delete a pod on all nodes, or `on` one; return what is going then: nothing, if there is no such pod.

    Raises Failure.
    """
    from syncpod.cli.temporal import fleet_deletion, fleet_pod_changes, fleet_workloads

    ended = await fleet_pod_changes.delete(client, namespace, name, node=on, force=force)
    for node in ended.nodes:
        forced = " by force" if force else ""
        say(f'pod "{name}" deleted from {namespace} namespace on node/{node.name}{forced}')
        if node.presence == "Unknown" and force:
            warn(
                f"node {node.name} cannot be reached: if it is running, the pod runs there until the node is back and "
                "ends it; until then give nothing that the pod holds, such as a lock or a volume, to another pod"
            )
        elif node.presence == "Unknown":
            remark(f"node {node.name} cannot be reached: it ends the pod when it is back (--force does not wait)")
    if ended.is_placed and not ended.nodes:
        say(f'pod "{name}" deleted from {namespace} namespace')
    for owner in ended.owners:
        remark(f"Note: {owner} creates another pod in its place")
    going = [fleet_deletion.pod(client, namespace, name, node.name) for node in ended.nodes]
    if not ended.is_placed:
        return going
    workflow = fleet_deletion.workload(client, fleet_workloads.POD, namespace, name)
    return [fleet_deletion.one_after_another(going[0], workflow), *going[1:]] if going else [workflow]
