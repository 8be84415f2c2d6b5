"""Manifests: pods, ConfigMaps and Secrets from YAML or JSON text."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from syncpod.pod.admission import problems_beside
from syncpod.pod.kinds import ConfigMap, Pod, Secret
from syncpod.pod.parse import parse_config_map, parse_pod, parse_secret
from syncpod.pod.problems import (
    ManifestError,
    ManifestErrors,
    OtherKind,
    PodInvalid,
    Problem,
    on_one_line,
)

_BLANKS = re.compile(r"\s*")
_LONGEST_CALLED = 160

LARGEST_MANIFEST = 10 * 1024 * 1024
"""The largest manifest in bytes: the kubelet's limit for a static pod's file."""

Manifest = Pod | ConfigMap | Secret
"""The kinds of objects in a manifest."""

_PARSERS: Mapping[str, Callable[[Any], Manifest]] = {
    "Pod": parse_pod,
    "ConfigMap": parse_config_map,
    "Secret": parse_secret,
}
_LISTS = {"List": None, **{f"{kind}List": kind for kind in _PARSERS}}

_TEMPLATES: Final[Mapping[str, str]] = {
    "spec.template": "",
    "spec.jobTemplate.spec.template": ", from a timer of your own",
    "template": "",
}
"""Where objects of other kinds have a pod's template, such as a Deployment, a CronJob and a PodTemplate."""

_STORAGE: Final = "in the pod, use a hostPath volume in place of the claim, or emptyDir for data that goes with the pod"
_ACCESS: Final = "there is no API server to give access to: leave it out"
_REACHED: Final = "nothing routes here: reach the pod at its own address, by a hostPort, or with `syncpod port-forward`"

_WAYS_ON: Final[Mapping[str, str]] = {
    **dict.fromkeys(("PersistentVolumeClaim", "PersistentVolume", "StorageClass"), _STORAGE),
    **dict.fromkeys(("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), _ACCESS),
    **dict.fromkeys(("Service", "Endpoints", "EndpointSlice", "Ingress", "Gateway", "HTTPRoute"), _REACHED),
    "Namespace": "namespaces need no objects: set metadata.namespace in the pod, or use -n",
    "Node": "a node is there as soon as its worker runs: `syncpod worker --node NAME`",
    "Kustomization": "build it first: kubectl kustomize DIR | syncpod apply -f -",
}
"""The advice for objects of other kinds, which are not applied here and have no template of a pod."""

_COMPOSE: Final = (
    "is a Compose file: write a Pod for its services, each a container with its image, args (command), env "
    "(environment) and volumeMounts"
)


def load_documents(text: str | bytes, *, source: str = "-", left_out: list[str] | None = None) -> tuple[Manifest, ...]:
    """Read every object of a stream, in order; the items of lists are read, and empty documents are skipped.

    With `left_out`, objects of other kinds are not errors: their kinds and names are added to it.

    Objects are only parsed, strictly; `admit` defaults and validates them. Raises ManifestErrors with one sentence for
    each invalid field, which names the source, the document and the field. For a Pod that cannot be parsed, there are
    also the problems that `admit` would find in the rest of that Pod.
    """
    loaded: list[Manifest] = []
    wrong: list[ManifestError] = []

    def load(number: int, document: Any) -> Iterator[Manifest]:
        try:
            items = list(_opened(document, source, number))
        except ManifestError as error:
            wrong.append(error)
            return
        for path, item in items:
            try:
                yield _parsed(item, path, source, number)
            except OtherKind as error:
                if left_out is None:
                    wrong.append(error)
                else:
                    left_out.append(_called(item))
            except ManifestError as error:
                wrong.append(error)
            except ManifestErrors as several:
                wrong.extend(several.errors)

    try:
        for number, document in read_documents(text, source=source):
            loaded.extend(load(number, document))
    except ManifestError as error:  # the text itself is malformed: nothing after it can be read
        wrong.append(error)
    if wrong:
        raise ManifestErrors(wrong)
    return tuple(loaded)


def read_documents(text: str | bytes, *, source: str = "-") -> Iterator[tuple[int, Any]]:
    """Yield the number (from 1) and the data of each document of a stream, without empty documents.

    Raises ManifestError.
    """
    # Imported here, so that code that only handles pods, such as a workflow, need not load PyYAML.
    from syncpod.pod.yaml_stream import MOST_VALUES, YamlError, read_yaml

    decoded = _decoded(text, source)
    documents = _read_json(decoded) if _holds_no_more_values(decoded, MOST_VALUES) else None
    try:
        for number, document in enumerate(read_yaml(decoded) if documents is None else documents, 1):
            if document is not None:
                yield number, document
    except YamlError as error:
        raise ManifestError(source, error.document, str(error)) from None


def _decoded(text: str | bytes, source: str) -> str:
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > LARGEST_MANIFEST:
        raise ManifestError(source, 0, f"larger than {LARGEST_MANIFEST // 1024**2} MiB")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ManifestError(source, 0, f"not UTF-8 text (byte {error.start})") from None
    if (nul := text.find("\0")) >= 0:
        raise ManifestError(source, 0, f"not text: it holds a NUL (character {nul}); is it UTF-16?")
    return text.removeprefix("\ufeff")


def _holds_no_more_values(text: str, most: int) -> bool:
    """Say whether JSON text has at most this many values, without parsing it: the parser would build all of them."""
    return text.count(",") + text.count("{") + text.count("[") + text.count(":") <= most


class _NotJson(ValueError):
    """The text is not JSON that Kubernetes accepts.

    Reading it as YAML may succeed, or give an error with a position.
    """


def _read_json(text: str) -> list[Any] | None:
    """Return the values of a stream of JSON, ten times as fast as a YAML parser would; None if it is not JSON."""
    stripped = text.lstrip()
    if not stripped.startswith("{"):
        return None
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    documents: list[Any] = []
    position = len(text) - len(stripped)
    try:
        while position < len(text):
            document, position = decoder.raw_decode(text, position)
            documents.append(document)
            position = _BLANKS.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing, too
        if r"\u" in text:
            json.dumps(documents, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return documents


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NotJson
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _NotJson
    return number


def _no_constant(_name: str) -> Any:
    raise _NotJson


def _opened(document: Any, source: str, number: int) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a document and their paths: the document itself, or a list's items."""
    if not isinstance(document, dict):
        raise ManifestError(source, number, "must be an object with apiVersion and kind")
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in _LISTS:
        yield "", document
        return
    items = document.get("items") or []
    if not isinstance(items, list):
        raise ManifestError(source, number, "items: must be a list")
    for index, item in enumerate(items):
        # The items of a PodList may omit their kind.
        implied = {"apiVersion": "v1", "kind": _LISTS[kind]} if _LISTS[kind] else {}
        yield f"items[{index}]", {**implied, **item} if isinstance(item, dict) else item


def _called(document: Any) -> str:
    """Return an object's kind and name, escaped and truncated, since their author is not trusted."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return on_one_line(f"{document['kind']} {name}" if isinstance(name, str) else document["kind"], _LONGEST_CALLED)


def _parsed(document: Any, path: str, source: str, number: int) -> Manifest:
    at = f"{path}." if path else ""
    if not isinstance(document, dict):
        raise ManifestError(source, number, f"{path}: must be an object")
    kind = document.get("kind")
    if not kind:
        raise ManifestError(source, number, _COMPOSE if _is_compose(document) else f"{at}kind: required")
    parser = _PARSERS.get(kind) if isinstance(kind, str) else None
    if parser is None:
        meant = next((one for one in (*_PARSERS, *_LISTS) if one.lower() == str(kind).lower()), "")
        wanted, way = f"{', '.join(_PARSERS)} or List", way_on(document)
        if meant and meant != kind:
            way = f"capital letters matter: write {meant}"
        refusal = OtherKind if isinstance(kind, str) and not meant else ManifestError
        said = f"{at}kind: must be {wanted}, not {str(kind)[:80]}"
        raise refusal(source, number, f"{said}: {way}" if way else said)
    if not document.get("apiVersion"):
        raise ManifestError(source, number, f"{at}apiVersion: required")
    try:
        return parser(document)
    except PodInvalid as error:
        problems = [*error.problems, *(problems_beside(document, error.problems) if kind == "Pod" else ())]
        placed = (Problem(f"{at}{one.path}" if one.path else path, one.message) for one in problems)
        raise ManifestErrors(ManifestError(source, number, str(one)) for one in placed) from None


def way_on(document: Mapping[str, Any]) -> str:
    """Return the advice for an object that is not applied here; "" for one of an unknown kind without a template."""
    for path, how in _TEMPLATES.items():
        place: Any = document
        for name in (*path.split("."), "spec"):
            place = place.get(name) if isinstance(place, Mapping) else None
        if isinstance(place, Mapping):
            return f"apply its {path} as a Pod, with a metadata.name{how}"
    return _WAYS_ON.get(str(document.get("kind")), "")


def _is_compose(document: Mapping[str, Any]) -> bool:
    """Return whether a document without a kind is a Compose file."""
    return isinstance(document.get("services"), Mapping) and "apiVersion" not in document
