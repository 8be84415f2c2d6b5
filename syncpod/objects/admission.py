"""Admission of ConfigMaps and Secrets: validates them, and drops the fields that an API server fills in."""

from typing import NamedTuple

from syncpod.pod import ConfigMap, ObjectMeta, PodInvalid, Problem, Secret, validate_config_map, validate_secret
from syncpod.pod.meta import CLUSTERS_METADATA, SERVERS_METADATA
from syncpod.pod.wire import wire_name

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ObjectAdmission(NamedTuple):
    """An admitted object, and warnings for its author."""

    object: ConfigMap | Secret
    warnings: tuple[Problem, ...]


def admit_object(given: ConfigMap | Secret) -> ObjectAdmission:
    """Admit an object for a first or a repeated apply; an object without a namespace goes to ``default``.

    The output of `kubectl get -o yaml` is accepted too. Fields that an API server filled in are dropped with a warning.
    kubectl's last-applied annotation, which repeats a Secret's values in clear, is dropped too. Raises PodInvalid with
    every problem.
    """
    problems = validate_config_map(given) if isinstance(given, ConfigMap) else validate_secret(given)
    if problems:
        raise PodInvalid(problems)
    metadata = given.metadata
    warnings = []
    if dropped := [name for name in SERVERS_METADATA if getattr(metadata, name)]:
        names = ", ".join(map(wire_name, dropped))
        warnings.append(Problem("metadata", f"dropped what an API server filled in: {names}"))
    warnings += [
        Problem(f"metadata.{wire_name(name)}", "dropped: only a cluster's controllers use it")
        for name in CLUSTERS_METADATA
        if getattr(metadata, name)
    ]
    if _LAST_APPLIED in metadata.annotations:
        warnings.append(Problem(f"metadata.annotations[{_LAST_APPLIED}]", "dropped: it repeats the object's data"))
    kept = ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace or "default",
        labels=metadata.labels,
        annotations={key: text for key, text in metadata.annotations.items() if key != _LAST_APPLIED},
    )
    return ObjectAdmission(given.model_copy(update={"metadata": kept}), tuple(warnings))
