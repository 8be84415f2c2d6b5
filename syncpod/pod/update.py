"""Updates of an existing pod: which changes are allowed, and their result.

Mirrors `pkg/apis/core/validation`, v1.36, ValidatePodUpdate: images, activeDeadlineSeconds (set or lowered),
tolerations (added), scheduling gates (removed), labels and annotations; and ValidatePodResize: CPU and memory of
containers and of the pod as a whole (changed or added). Difference: the API server accepts a resize only through a
subresource. Ephemeral containers have an update of their own.
"""

from collections.abc import Iterator
from typing import Any

from syncpod.pod.containers import Container
from syncpod.pod.defaults import default_pull_policy
from syncpod.pod.kinds import Pod
from syncpod.pod.origin import is_of_cluster, updated_annotations
from syncpod.pod.problems import Problem
from syncpod.pod.quantity import parse_quantity
from syncpod.pod.resources import ResourceRequirements
from syncpod.pod.scheduling import Toleration
from syncpod.pod.spec import PodSpec
from syncpod.pod.wire import to_wire

_FIXED = "may not be changed; delete the pod and apply it again"
_FIXED_RESOURCE = "may not be changed, only cpu and memory may; delete the pod and apply it again"
_REMOVED = "may not be removed, only changed; delete the pod and apply it again"
_RESIZABLE = ("cpu", "memory")
_QUANTITIES = frozenset({"limits", "requests", "overhead"})


def validate_update(old: Pod, new: Pod) -> tuple[Problem, ...]:
    """Return the problems with changing `old` to `new`; both have their defaults.

    The rule that a resize must not change the QoS class is checked elsewhere: see `lifecycle.qos`. An absent UID,
    nodeName or list of ephemeral containers in `new` means the old one, since a manifest has none of them. A default
    pull policy stays as it was, as with `kubectl apply`.
    """
    return tuple(_problems(old, new))


def merge_update(old: Pod, new: Pod) -> Pod:
    """Return `new`'s labels, annotations and spec with `old`'s identity and status.

    Only a cluster changes the owners of its pods, and only a source changes its marks in the annotations. If `new` has
    another generation, as a cluster's pod does, the result has that generation; else the generation grows by one if the
    spec changed. `validate_update(old, new)` must be empty.
    """
    spec = _with_kept_fields(old.spec, new.spec)
    grown = old.metadata.generation if spec == old.spec else (old.metadata.generation or 1) + 1
    given = new.metadata.generation
    metadata = old.metadata.model_copy(
        update={
            "labels": new.metadata.labels,
            "annotations": updated_annotations(old.metadata, new.metadata),
            "owner_references": (new if is_of_cluster(new.metadata) else old).metadata.owner_references,
            "generation": grown if given in (None, old.metadata.generation) else given,
        }
    )
    return old.model_copy(update={"metadata": metadata, "spec": spec})


def _problems(old: Pod, new: Pod) -> Iterator[Problem]:
    for name in ("name", "namespace"):
        if getattr(old.metadata, name) != getattr(new.metadata, name):
            yield Problem(f"metadata.{name}", _FIXED)
    if new.metadata.uid and new.metadata.uid != old.metadata.uid:
        yield Problem("metadata.uid", f"is another pod's: {old.metadata.name} has {old.metadata.uid}")
    yield from _check_deadline(old.spec.active_deadline_seconds, new.spec.active_deadline_seconds)
    yield from _check_tolerations(old.spec.tolerations, new.spec.tolerations)
    if not {gate.name for gate in new.spec.scheduling_gates} <= {gate.name for gate in old.spec.scheduling_gates}:
        yield Problem("spec.schedulingGates", "may only be removed")
    yield from _check_resizes(old.spec, new.spec)
    for path in _differences(_fixed(old.spec), _fixed(_with_kept_fields(old.spec, new.spec)), "spec"):
        yield Problem(path, _FIXED_RESOURCE if ".resources." in path else _FIXED)


def _check_resizes(old: PodSpec, new: PodSpec) -> Iterator[Problem]:
    """Check that no request or limit is removed, and that resizing a container that runs only once needs no restart."""
    yield from _check_removals(old.resources, new.resources, "spec.resources")
    for before, after, path in (
        (old.containers, new.containers, "spec.containers"),
        (old.init_containers, new.init_containers, "spec.initContainers"),
    ):
        # Other containers, or another order, are refused elsewhere.
        for index, (mine, theirs) in enumerate(zip(before, after, strict=False)):
            if mine.name != theirs.name:
                continue
            here = f"{path}[{index}].resources"
            yield from _check_removals(mine.resources, theirs.resources, here)
            runs_once = path == "spec.initContainers" and mine.restart_policy != "Always"
            policies = {policy.restart_policy for policy in mine.resize_policy}
            if runs_once and "RestartContainer" in policies and _is_resized(mine, theirs):
                yield Problem(
                    here, "may not be changed: an init container that is not a sidecar is not restarted for it"
                )


def _check_removals(old: ResourceRequirements | None, new: ResourceRequirements | None, path: str) -> Iterator[Problem]:
    before, after = old or ResourceRequirements(), new or ResourceRequirements()
    for kind in ("limits", "requests"):
        for name in getattr(before, kind):
            if name in _RESIZABLE and name not in getattr(after, kind):
                yield Problem(f"{path}.{kind}[{name}]", _REMOVED)


def _is_resized(old: Container, new: Container) -> bool:
    return any(
        parse_quantity(getattr(old.resources, kind).get(name, "0"))
        != parse_quantity(getattr(new.resources, kind).get(name, "0"))
        for kind in ("limits", "requests")
        for name in _RESIZABLE
    )


def _check_deadline(old: int | None, new: int | None) -> Iterator[Problem]:
    if old is not None and (new is None or new > old):
        yield Problem("spec.activeDeadlineSeconds", f"may be lowered from {old}, not raised or removed")


def _check_tolerations(old: tuple[Toleration, ...], new: tuple[Toleration, ...]) -> Iterator[Problem]:
    """Check that tolerations were only added; tolerationSeconds may change."""
    kept = [toleration.model_copy(update={"toleration_seconds": None}) for toleration in new]
    if any(toleration.model_copy(update={"toleration_seconds": None}) not in kept for toleration in old):
        yield Problem("spec.tolerations", "may only be added to; delete the pod and apply it again to remove one")


def _with_kept_fields(old: PodSpec, new: PodSpec) -> PodSpec:
    """Return the new spec with the running pod's values for fields that a manifest lacks."""
    return new.model_copy(
        update={
            "node_name": new.node_name or old.node_name,
            "ephemeral_containers": new.ephemeral_containers or old.ephemeral_containers,
            "containers": _with_kept_policies(old.containers, new.containers),
            "init_containers": _with_kept_policies(old.init_containers, new.init_containers),
        }
    )


def _with_kept_policies(old: tuple[Container, ...], new: tuple[Container, ...]) -> tuple[Container, ...]:
    """Keep in each container of `new` the pull policy of its counterpart in `old`, if both are defaults."""
    policies = [(one.name, one.image_pull_policy) if _has_default_policy(one) else None for one in old]
    policies += [None] * (len(new) - len(old))
    return tuple(
        one.model_copy(update={"image_pull_policy": kept[1]})
        if kept is not None and kept[0] == one.name and _has_default_policy(one)
        else one
        for one, kept in zip(new, policies, strict=False)
    )


def _has_default_policy(container: Container) -> bool:
    return container.image_pull_policy == default_pull_policy(container.image)


def _fixed(spec: PodSpec) -> dict[str, Any]:
    """Return the wire form of a spec without the fields that may change."""

    def fixed(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            container.model_copy(update={"image": "", "resources": _fixed_resources(container.resources)})
            for container in containers
        )

    whole = _fixed_resources(spec.resources) if spec.resources is not None else ResourceRequirements()
    changes = {
        "containers": fixed(spec.containers),
        "init_containers": fixed(spec.init_containers),
        "resources": whole if whole != ResourceRequirements() else None,
        "active_deadline_seconds": None,
        "tolerations": (),
        "scheduling_gates": (),
    }
    return to_wire(spec.model_copy(update=changes))


def _fixed_resources(resources: ResourceRequirements) -> ResourceRequirements:
    """Return requirements without the amounts that a resize may change."""

    def fixed(amounts: dict[str, str]) -> dict[str, str]:
        return {name: text for name, text in amounts.items() if name not in _RESIZABLE}

    return resources.model_copy(update={"limits": fixed(resources.limits), "requests": fixed(resources.requests)})


def _differences(old: Any, new: Any, path: str) -> Iterator[str]:
    """Yield the paths of the smallest differing parts; lists of different lengths differ as a whole."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            here = f"{path}.{name}"
            if name not in old or name not in new:
                yield here
            elif name in _QUANTITIES:
                yield from _quantity_differences(old[name], new[name], here)
            else:
                yield from _differences(old[name], new[name], here)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences(before, after, f"{path}[{index}]")
    else:
        yield path


def _quantity_differences(old: dict[str, str], new: dict[str, str], path: str) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if name not in old or name not in new or parse_quantity(old[name]) != parse_quantity(new[name]):
            yield f"{path}[{name}]"
