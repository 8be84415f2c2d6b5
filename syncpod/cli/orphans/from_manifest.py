"""Rebuilds a pod's record, if its node has lost it, from the pod's manifest and its running containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from syncpod.cli.failure import Failure
from syncpod.node.pod_records import PodRecord
from syncpod.pod import Container, EphemeralContainer, Pod, container_hash
from syncpod.translation.names import CONTAINER_HASH_ANNOTATION, CONTAINER_NAME_LABEL

if TYPE_CHECKING:
    from syncpod.cli.orphans.found_orphans import FoundOrphan


def record_from(manifest: Pod, orphan: FoundOrphan, node: str) -> PodRecord:
    """Return the record of a pod in the runtime, made from the pod's manifest, which has been admitted.

    UID, incarnation and creation time come from the runtime's objects. Raises Failure if these objects do not name the
    incarnation, or if running containers were not made from the manifest: an adoption would restart them.
    """
    if not orphan.pod.incarnation:
        raise Failure(
            f'pod "{orphan.pod.name}" cannot be adopted: nothing in the runtime says which life of the pod it is; '
            "`syncpod prune` ends it, then apply its manifest again"
        )
    if wrong := [*_other_identity(manifest, orphan, node), *_differences(manifest, orphan)]:
        raise Failure(
            f'pod "{orphan.pod.name}" cannot be adopted from this manifest, since its containers have another: '
            f"{'; '.join(wrong)}"
        )
    meta = manifest.metadata.model_copy(
        update={"uid": orphan.pod.uid, "creation_timestamp": orphan.pod.made_at, "generation": 1}
    )
    spec = manifest.spec.model_copy(update={"node_name": node})
    return PodRecord(
        pod=manifest.model_copy(update={"metadata": meta, "spec": spec}), incarnation=orphan.pod.incarnation
    )


def _other_identity(manifest: Pod, orphan: FoundOrphan, node: str) -> Iterator[str]:
    """Yield the fields that show that the manifest is another pod's."""
    if manifest.metadata.uid not in ("", orphan.pod.uid):
        yield f"metadata.uid: is {manifest.metadata.uid}, must be {orphan.pod.uid}"
    if manifest.spec.node_name not in (None, "", node):
        yield f"spec.nodeName: is {manifest.spec.node_name}, must be {node}"


def _differences(manifest: Pod, orphan: FoundOrphan) -> Iterator[str]:
    """Yield the running containers that the manifest lacks, or has with another image."""
    spec = manifest.spec
    kinds: tuple[tuple[str, tuple[Container | EphemeralContainer, ...]], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    known = {each.name: (f"spec.{kind}[{at}]", each) for kind, some in kinds for at, each in enumerate(some)}
    there = [each for each in orphan.pod.containers if each.state == "running"]
    for running in sorted(there, key=lambda each: each.labels.get(CONTAINER_NAME_LABEL, "")):
        name = running.labels.get(CONTAINER_NAME_LABEL, "")
        if name not in known:
            yield f"spec.containers: has no {name}, which runs"
            continue
        path, container = known[name]
        made_from = running.annotations.get(CONTAINER_HASH_ANNOTATION, "")
        if made_from != container_hash(container.name, container.image or ""):
            yield f"{path}.image: {name} runs with another image than {container.image}"
