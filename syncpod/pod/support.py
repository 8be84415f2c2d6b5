"""Fields that this version does not support, refused by name, and fields that no node acts on, accepted with a warning.

No field is accepted and then silently ignored: it is refused, or a warning says that it is for a part of a cluster that
does not exist here, and the pod runs anyway.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from syncpod.pod.amounts import HUGE_PAGES
from syncpod.pod.defaults import DEFAULT_SCHEDULER_NAME
from syncpod.pod.kinds import Pod
from syncpod.pod.origin import is_of_cluster
from syncpod.pod.problems import Problem
from syncpod.pod.static import FROM_NODE, HASH_ANNOTATION
from syncpod.pod.validation.scheduling import is_default_toleration
from syncpod.pod.volumes import Volume
from syncpod.pod.wire import to_wire

_SUPPORTED_VOLUMES = ("configMap", "downwardAPI", "emptyDir", "hostPath", "image", "projected", "secret")
_SUPPORTED_RESOURCES = ("cpu", "memory", "ephemeral-storage")


IN_EVERY_CONTAINER = "spec.<containers>[]"
"""In a path, stands for each of the three lists of containers."""


class Rule(NamedTuple):
    """A field of the spec, the sentence about it, and the values that are accepted without that sentence.

    In a path, `[]` stands for every element of a list and `<>` for each of the three lists of containers.
    """

    path: str
    sentence: str
    accepted: tuple[Any, ...] = ()


_NO_DRIVERS = (
    "since no storage driver runs here: mount the storage on the node and use hostPath, or use emptyDir for data that "
    "goes with the pod"
)

_NO_ISSUER = (
    ": mount a Secret instead. If a cluster has injected it (Istio, Linkerd, a cloud's identity), apply the manifest "
    "as it was before"
)

_PROJECTED = "volumes[].projected.sources[]"
_ISSUED = ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
"""The projected sources that only an API server has."""

REFUSED = (
    Rule("<>.volumeDevices", "block volumes"),
    Rule("<>.resources.claims", "resource claims"),
    Rule("resources.claims", "resource claims"),
    Rule("<>.securityContext.windowsOptions", "Windows"),
    *(
        Rule(f"volumes[].{field.alias}", f"{field.alias} volumes, {_NO_DRIVERS}")
        for name, field in Volume.model_fields.items()
        if name != "name" and field.alias not in _SUPPORTED_VOLUMES
    ),
    *(Rule(f"{_PROJECTED}.{name}", f"what only an API server can issue, as {name} is{_NO_ISSUER}") for name in _ISSUED),
    Rule("resourceClaims", "resource claims"),
    Rule("os.name", "operating systems other than linux", ("linux",)),
    Rule("securityContext.windowsOptions", "Windows"),
)

_GIVEN_BY_CLUSTER = (
    "<>.volumeDevices",
    *(f"{_PROJECTED}.{name}" for name in _ISSUED),
    "volumes[].persistentVolumeClaim",
    "volumes[].ephemeral",
    "volumes[].csi",
)
_OF_CLUSTER = tuple(rule for rule in REFUSED if rule.path in _GIVEN_BY_CLUSTER)
"""The rules that do not apply to pods of a Kubernetes cluster, since their fields are supported there."""

_NO_SCHEDULER = "has no effect here: only a scheduler reads it"
_NO_CLASSES = "has no effect here: there is no API server that has classes; eviction ranks pods by spec.priority"
_NO_API_SERVER = "has no effect here: no API server issues tokens"

_NO_LASTING_VOLUME = "has no effect here: it is for volumes that outlive their pod"

_SECCOMP_ANNOTATIONS = ("seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/")

_WITHOUT_CLUSTER = (_NO_SCHEDULER, _NO_CLASSES, _NO_API_SERVER, _NO_LASTING_VOLUME)
"""The sentences that do not apply to the pods of a Kubernetes cluster, which has a scheduler, classes, tokens and
claims."""

WITHOUT_EFFECT = (
    Rule("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", _NO_SCHEDULER),
    Rule("affinity.podAffinity", _NO_SCHEDULER),
    Rule("affinity.podAntiAffinity", _NO_SCHEDULER),
    Rule("topologySpreadConstraints", _NO_SCHEDULER),
    Rule("priorityClassName", _NO_CLASSES),
    Rule("preemptionPolicy", _NO_SCHEDULER, ("PreemptLowerPriority",)),
    Rule("schedulerName", _NO_SCHEDULER, (DEFAULT_SCHEDULER_NAME,)),
    Rule("schedulingGates", _NO_SCHEDULER),
    Rule("schedulingGroup", _NO_SCHEDULER),
    Rule("serviceAccountName", _NO_API_SERVER, ("default",)),
    Rule("automountServiceAccountToken", _NO_API_SERVER, (False,)),
    Rule("securityContext.fsGroupChangePolicy", _NO_LASTING_VOLUME),
)

_OF_PLACEMENT = ("spec.affinity", "spec.topologySpreadConstraints", "spec.tolerations", "spec.schedulingGates")
"""The beginnings of paths: warnings about these do not apply to a pod whose node a fleet has chosen."""


def check_supported(pod: Pod) -> tuple[Problem, ...]:
    """Return the unsupported fields of a pod that has its defaults."""
    spec = to_wire(pod).get("spec", {})
    return tuple(
        (
            *(
                Problem(path, f"not supported yet: {rule.sentence}")
                for rule in REFUSED
                if rule not in _OF_CLUSTER or not is_of_cluster(pod.metadata)
                for path in _matches(spec, rule)
            ),
            *_refused_resources(spec, clusters=is_of_cluster(pod.metadata)),
        )
    )


def check_without_effect(pod: Pod) -> tuple[Problem, ...]:
    """Return a warning for each field that is accepted and has no effect here."""
    spec, clusters = to_wire(pod).get("spec", {}), is_of_cluster(pod.metadata)
    rules = [rule for rule in WITHOUT_EFFECT if not clusters or rule.sentence not in _WITHOUT_CLUSTER]
    warnings = [Problem(path, rule.sentence) for rule in rules for path in _matches(spec, rule)]
    added = (FROM_NODE,) if HASH_ANNOTATION in pod.metadata.annotations else ()
    if not clusters and any(each not in added and not is_default_toleration(each) for each in pod.spec.tolerations):
        warnings.append(Problem("spec.tolerations", _NO_SCHEDULER))
    warnings += [
        Problem(
            f"metadata.annotations[{key}]", "has no effect since Kubernetes 1.27: use securityContext.seccompProfile"
        )
        for key in pod.metadata.annotations
        if key.startswith(_SECCOMP_ANNOTATIONS)
    ]
    return tuple(warnings)


def is_of_placement(warning: Problem) -> bool:
    """Say whether a warning is about a field that has an effect only in a fleet, which places pods by it."""
    return warning.path.startswith(_OF_PLACEMENT)


def _matches(spec: dict[str, Any], rule: Rule) -> Iterator[str]:
    """Yield the path of each value that the rule applies to."""
    groups = ("containers[]", "initContainers[]", "ephemeralContainers[]") if rule.path.startswith("<>") else ("",)
    for group in groups:
        for path, value in _values(spec, rule.path.replace("<>", group).split("."), "spec"):
            if value not in rule.accepted:
                yield path


def _values(value: Any, steps: list[str], path: str) -> Iterator[tuple[str, Any]]:
    if not steps:
        yield path, value
        return
    name = steps[0].removesuffix("[]")
    if name not in value:
        return
    found, here = value[name], f"{path}.{name}"
    if name == steps[0]:
        yield from _values(found, steps[1:], here)
    else:
        for index, item in enumerate(found):
            yield from _values(item, steps[1:], f"{here}[{index}]")


def _refused_resources(spec: dict[str, Any], *, clusters: bool) -> Iterator[Problem]:
    """Refuse requests for devices, which no device plugin provides here.

    A cluster also counts resources that an administrator has written into the Node's capacity, and binds pods by them.
    The node does nothing with such amounts, and accepts them (predicate.go, v1.36, removeMissingExtendedResources).
    """
    owners = [
        (f"spec.{group}[{index}].resources.{kind}", amounts)
        for group in ("containers", "initContainers", "ephemeralContainers")
        for index, container in enumerate(spec.get(group, ()))
        for kind, amounts in container.get("resources", {}).items()
        if kind != "claims"
    ]
    for path, amounts in (*owners, ("spec.overhead", spec.get("overhead", {}))):
        for name in amounts:
            counted = clusters and "/" in name and "kubernetes.io/" not in name
            if name not in _SUPPORTED_RESOURCES and not name.startswith(HUGE_PAGES) and not counted:
                yield Problem(f"{path}[{name}]", f"not supported yet: the resource {name}")
