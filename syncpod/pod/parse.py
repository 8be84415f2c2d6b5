"""Parsing JSON-like data into models; every mistake is reported with its path."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from syncpod.pod.containers import EphemeralContainer
from syncpod.pod.kinds import ConfigMap, Pod, Secret
from syncpod.pod.model_errors import UNKNOWN, field_path, message
from syncpod.pod.problems import PodInvalid, Problem
from syncpod.pod.resources import PodResize
from syncpod.pod.wire import Model

_MAPS = frozenset(
    {
        "allocatedResources", "annotations", "binaryData", "data", "labels", "limits", "matchLabels", "nodeSelector",
        "overhead", "requests", "stringData", "userAnnotations",
    }
)  # fmt: skip
"""Fields whose keys the user chooses; in a path such a key is written in brackets."""

_DEEPEST = 100
_MOST_VALUES = 20_000
"""How many values a pod may have. Parsing one takes some 10 to 40 µs, and a workflow task has two seconds."""

_MOST_ELEMENTS = {"containers": 500, "initContainers": 500, "ephemeralContainers": 500, "volumes": 500}
"""How many elements each of these lists may have. Parsing such an element takes ten times as long as a value."""

_OF_PROCESSES = (Pod, EphemeralContainer)
_NO_NULS = "must have no NUL character, which no process and no path can be given"
_MOST_SUGGESTIONS = 20
_LONGEST_SUGGESTED = 64

NEWER: Final = "1.37"
"""The version of Kubernetes that brought the `NEWER_FIELDS`."""

NEWER_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "PodSpec": frozenset({"evictionResponders"}),
    "PodStatus": frozenset({"volumeHealth"}),
    "NodeAllocatableResourceClaimStatus": frozenset({"mapping", "overhead"}),
    "VolumeMount": frozenset({"bindMountOptions"}),
    "HTTPGetAction": frozenset({"protocol"}),
    "GRPCAction": frozenset({"mode"}),
    "EmptyDirVolumeSource": frozenset({"mode"}),
    "SecretVolumeSource": frozenset({"defaultUser"}),
    "ConfigMapVolumeSource": frozenset({"defaultUser"}),
    "ProjectedVolumeSource": frozenset({"defaultUser"}),
    "DownwardAPIVolumeSource": frozenset({"defaultUser"}),
    "KeyToPath": frozenset({"user"}),
    "DownwardAPIVolumeFile": frozenset({"user"}),
    "ServiceAccountTokenProjection": frozenset({"user"}),
    "ClusterTrustBundleProjection": frozenset({"user"}),
    "PodCertificateProjection": frozenset({"user"}),
}
"""Fields that are alpha in Kubernetes 1.37, by their struct in k8s.io/api/core/v1. A pod with one of them is refused
in a message that names the version. An API server drops the field while its feature gate is off.

The gates (pkg/features/kube_features.go, v1.37) are EvictionRequestAPI, VolumeBindMountOptions, H2CContainerProbe,
GRPCContainerProbeTLS, EmptyDirVolumeMode, AtomicWriteVolumeUserFields, CSIVolumeHealth and DRANodeAllocatableResources.
"""

_Parsed = TypeVar("_Parsed", bound=Model)


def parse_pod(document: Any, *, strict: bool = True) -> Pod:
    """Read a Pod from data such as `json.loads` returns.

    With `strict`, for a person's document, an unknown field is a problem, except in `status`, which an API server
    writes. A pod that no node could run is refused at once: thousands of containers, tens of thousands of values, text
    with NULs. Without `strict`, for messages between our own versions, unknown fields are ignored. A null counts as an
    absent field. Raises PodInvalid with every problem.
    """
    if not strict:
        return _parse(Pod, document, strict=False)
    _check_size(document)
    if not isinstance(document, Mapping) or "status" not in document:
        return _parse(Pod, document, strict=True)
    wanted = {name: value for name, value in document.items() if name != "status"}
    parsed = _parse(Pod, wanted, strict=True)
    status = _parse(Pod, {"status": document["status"]}, strict=False).status
    return parsed.model_copy(update={"status": status})


def parse_config_map(document: Any) -> ConfigMap:
    """Read a ConfigMap, and refuse unknown fields; errors as for `parse_pod`."""
    return _parse(ConfigMap, document, strict=True)


def parse_secret(document: Any) -> Secret:
    """Read a Secret, and refuse unknown fields; errors as for `parse_pod`. No message shows a value."""
    return _parse(Secret, document, strict=True)


def parse_ephemeral_container(document: Any, *, strict: bool = True) -> EphemeralContainer:
    """Read an ephemeral container, and refuse unknown fields if `strict`; errors as for `parse_pod`."""
    return _parse(EphemeralContainer, document, strict=strict)


def parse_resize(document: Any) -> PodResize:
    """Read a resize, and refuse unknown fields; errors as for `parse_pod`."""
    _check_size({"spec": document})
    return _parse(PodResize, document, strict=True)


def parse_with_template(model: type[_Parsed], document: Any) -> _Parsed:
    """Read an object that has a template of pods, and refuse unknown fields; limits and errors as for `parse_pod`."""
    _check_size(document)
    spec = document.get("spec") if isinstance(document, Mapping) else None
    try:
        _check_size(spec.get("template") if isinstance(spec, Mapping) else None)
    except PodInvalid as error:
        problems = (Problem(f"spec.template.{one.path}", one.message) for one in error.problems)
        raise PodInvalid(problems) from None
    return _parse(model, document, strict=True, no_nuls=True)


def _parse(model: type[_Parsed], document: Any, *, strict: bool, no_nuls: bool = False) -> _Parsed:
    refuses_nuls = no_nuls or (strict and model in _OF_PROCESSES)
    cleaned = _without_nulls(document, _NO_NULS if refuses_nuls else "", False, ())
    try:
        return model.model_validate(cleaned, extra="forbid" if strict else "ignore", by_alias=True, by_name=False)
    except ValidationError as error:
        raise PodInvalid(_problems(model, error)) from None


def _check_size(document: Any) -> None:
    """Refuse a pod that is too large to run, before parsing it."""
    spec = document.get("spec") if isinstance(document, Mapping) else None
    for name, most in _MOST_ELEMENTS.items():
        found = spec.get(name) if isinstance(spec, Mapping) else None
        if isinstance(found, list | tuple) and len(found) > most:
            raise PodInvalid([Problem(f"spec.{name}", f"must be no more than {most}")])
    count = 0
    waiting = [document]
    while waiting:
        value = waiting.pop()
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
        count += len(inner)
        if count > _MOST_VALUES:
            raise PodInvalid([Problem("", f"must have no more than {_MOST_VALUES} values")])
        waiting.extend(inner)


def _without_nulls(value: Any, no_nuls: str, chosen_keys: bool, path: tuple[int | str, ...]) -> Any:
    """Drop null fields, and make null values in text maps empty, as Go's decoder does.

    Raises PodInvalid for too deep nesting, for text that is not valid UTF-8 and, if `no_nuls` gives a message, for
    NULs. `chosen_keys` says that the value is a map with keys that the user chooses.
    """
    if len(path) > _DEEPEST:
        raise PodInvalid([Problem("", f"nested more than {_DEEPEST} levels deep")])
    if isinstance(value, Mapping):
        return {
            _text(key, no_nuls, path): ""
            if item is None
            else _without_nulls(item, no_nuls, key in _MAPS and not chosen_keys, (*path, key))
            for key, item in value.items()
            if item is not None or chosen_keys
        }
    if isinstance(value, list | tuple):
        return [_without_nulls(item, no_nuls, False, (*path, index)) for index, item in enumerate(value)]
    return _text(value, no_nuls, path)


def _text(value: Any, no_nuls: str, path: tuple[int | str, ...]) -> Any:
    """Return the value unchanged. Raises PodInvalid for invalid text."""
    if isinstance(value, str):
        if no_nuls and "\0" in value:
            raise PodInvalid([Problem(field_path(path, _MAPS), no_nuls)])
        try:
            value.isascii() or value.encode()
        except UnicodeEncodeError:
            raise PodInvalid(
                [Problem(field_path(path, _MAPS), "must be text; half of a surrogate pair is none")]
            ) from None
    return value


def _problems(model: type[Model], error: ValidationError) -> Iterator[Problem]:
    for index, detail in enumerate(error.errors(include_url=False)):
        location = detail["loc"]
        suggests = detail["type"] == UNKNOWN and index < _MOST_SUGGESTIONS
        hint = _suggestion(model, location) if suggests else ""
        yield Problem(field_path(location, _MAPS), message(detail) + hint)


def _suggestion(model: type[Model], location: tuple[int | str, ...]) -> str:
    """Return a hint about an unknown field: that it is newer than this version, or a known field that it resembles.

    A field of a model nearby is probably indented wrongly, and the hint says where it belongs. "" = no hint.
    """
    if len(str(location[-1])) > _LONGEST_SUGGESTED:
        return ""
    holders = _holders(model, location)
    if len(holders) < len(location):
        return ""
    holder = holders[-1]
    if is_newer(holder.__name__, str(location[-1])):
        return f": it is an alpha field of Kubernetes {NEWER}, behind a feature gate that is off; leave it out"
    if elsewhere := _misplaced(holders, location):
        return elsewhere
    known = _fields(holder)
    folded = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(str(location[-1]).lower(), folded, n=1, cutoff=0.75)
    return f"; did you mean {folded[matches[0]]}?" if matches else ""


def _holders(model: type[Model], location: tuple[int | str, ...]) -> list[type[Model]]:
    """Return the model that has each step of a location, up to the first step that no model has."""
    holders: list[type[Model]] = [model]
    for step in location[:-1]:
        holder = holders[-1] if isinstance(step, int) else _model_of(holders[-1], step)
        if holder is None:
            break
        holders.append(holder)
    return holders


def _misplaced(holders: list[type[Model]], location: tuple[int | str, ...]) -> str:
    """Return a hint if an unknown field belongs further out, or one level further in; "" if no model there has it."""
    name = str(location[-1])
    for depth in reversed(range(len(holders) - 1)):
        if name in _fields(holders[depth]) and holders[depth] is not holders[-1]:
            where = field_path(location[:depth], _MAPS) or "the object itself"
            return f"; it is a field of {where}: is it indented too far?"
    inner = [
        each
        for each in _fields(holders[-1])
        if (model := _model_of(holders[-1], each)) is not None and name in _fields(model)
    ]
    if not inner:
        return ""
    likely = next((each for each in ("metadata", "containers") if each in inner), inner[0])
    return f"; it is a field of {field_path((*location[:-1], likely), _MAPS)}: is it indented far enough?"


def _fields(holder: type[Model]) -> list[str]:
    return [field.alias for field in holder.model_fields.values() if field.alias]


def _model_of(holder: type[Model], name: str) -> type[Model] | None:
    """Return the model of the field `name` of `holder`, or of its elements if it is a list."""
    for field in holder.model_fields.values():
        if field.alias == name:
            return _first_model(field.annotation)
    return None


def _first_model(annotation: Any) -> type[Model] | None:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (found := _first_model(argument)) is not None:
            return found
    return None


def is_newer(struct: str, field: str) -> bool:
    """Return whether a field of a struct came with the newer version."""
    return field in NEWER_FIELDS.get(struct, ())
