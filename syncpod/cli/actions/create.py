"""Creates what manifests have, for ``create`` and ``run``: an object that exists is left as it is."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from syncpod.api.label_selector import Selector
from syncpod.cli.actions.apply import apply_manifests
from syncpod.cli.actions.apply_dry_run import try_manifests
from syncpod.cli.failure import AlreadyExists, Failure
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.machine.object_store import find
from syncpod.cli.node_api import NAMED, NodeApi
from syncpod.node.orphan_mark import why_orphaned

if TYPE_CHECKING:
    from syncpod.api.client import Reply


def create_manifests(manifests: Manifests, node: str, patience: timedelta | None = None, *, wait: bool = False) -> None:
    """Create all objects; pods without a node go to `node`. With `wait`, wait until they are up.

    Raises Failure, before anything is done, if one of the objects exists. Raises BadInput and Failure as an apply does.
    """
    _require_new(manifests)
    apply_manifests(manifests, node, patience, wait=wait, creates=True)


def try_creation(manifests: Manifests, node: str, mark: str, *, asks: bool) -> None:
    """Print what would be created, as `apply_dry_run.try_manifests` does. Raises Failure, also for existing objects."""
    _require_new(manifests)
    try_manifests(manifests, node, mark, asks=asks)


def _require_new(manifests: Manifests) -> None:
    """Raise Failure with a line for each object that exists."""
    if existing := [*_existing_objects(manifests), *_existing_pods(manifests)]:
        raise Failure("\n".join(existing))


def _existing_pods(manifests: Manifests) -> list[str]:
    """Return a sentence for each pod of the manifests that exists."""
    metas, there = [admission.pod.metadata for admission in manifests.pods], set[tuple[str, str]]()
    with NodeApi() as api:
        for namespace in dict.fromkeys(meta.namespace for meta in metas):
            named = [("pod", meta.name) for meta in metas if meta.namespace == namespace]
            for first in range(0, len(named), NAMED):
                some = named[first : first + NAMED]
                there |= api.get(f"/api/v1/namespaces/{namespace}/pods", some, read=_keys)
    found = [meta for meta in metas if (meta.namespace, meta.name) in there]
    return [str(AlreadyExists("pods", meta.name, meta.namespace)) for meta in found]


def _keys(reply: Reply) -> set[tuple[str, str]]:
    """Return the namespace and the name of each pod of a list that has a workflow."""
    metas = [pod["metadata"] for pod in reply.document["items"] if not why_orphaned(pod)]
    return {(meta["namespace"], meta["name"]) for meta in metas}


def _existing_objects(manifests: Manifests) -> list[str]:
    """Return a sentence for each ConfigMap and Secret of the manifests that exists."""
    named = [(taken.object.kind, taken.object.metadata) for taken in manifests.objects]
    return [
        str(AlreadyExists(f"{kind.lower()}s", meta.name, meta.namespace))
        for kind, meta in named
        if find(kind, (meta.name,), meta.namespace, Selector())[0]
    ]
