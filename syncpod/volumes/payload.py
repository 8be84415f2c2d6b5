"""The content of a volume of files, as values: its sources, and the bytes and mode of each file.

Pure: the caller passes in the content of ConfigMaps and Secrets, and the text of the pod's fields.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncpod.objects import (
    BOTH_KEY,
    BUNDLE_KEY,
    CHAIN_KEY,
    PRIVATE_KEY,
    TOKEN_KEY,
    Kind,
    ObjectRef,
    bundle_ref,
    certificate_ref,
    ref_for,
    token_ref,
)
from syncpod.pod import Pod, Volume
from syncpod.pod.meta import KeyToPath
from syncpod.pod.origin import is_of_cluster
from syncpod.pod.volumes import DownwardAPIVolumeFile, VolumeProjection

DEFAULT_MODE: Final = 0o644
"""Mode of files if neither the volume nor an item sets one."""

_MISSING_KEY: Final[Mapping[Kind, str]] = {
    "ConfigMap": "configmap references non-existent config key: {}",
    "Secret": "references non-existent secret key: {}",
}
MOST_BYTES: Final = 32 * 2**20
"""Maximum bytes of all files of one volume. The files may be in memory, and a manifest of 500 KiB can name one object
of 1 MiB ten thousand times. Difference: the kubelet has no limit."""
_LONGEST_PATH = 4096
_LONGEST_NAME = 255
_PRIVATE: Final = 0o600
"""The mode of a token that is given to a user or a group (projected.go, v1.36, collectData)."""

Objects = Mapping[ObjectRef, Mapping[str, bytes]]
"""The existing ConfigMaps and Secrets, each with its bytes by key."""

TextOf = Callable[[DownwardAPIVolumeFile, str], str]
"""Returns the text of a pod's field for a file. Its second argument is the file's path in the pod, for errors."""


class PayloadError(Exception):
    """A volume's files cannot be made. The text is the kubelet's, and shows no value of a ConfigMap or Secret."""

    def __init__(self, message: str, *wants: ObjectRef) -> None:
        super().__init__(message)
        self.wants = wants
        """The objects that must appear or change before the files can be made."""


@dataclass(frozen=True, slots=True)
class PayloadFile:
    """One file of a volume. Its repr hides the bytes, which may be a Secret's."""

    data: bytes = field(repr=False)
    mode: int
    owner: int | None = None
    """The user that gets the file; None = the file stays the worker's."""


Payload = Mapping[str, PayloadFile]
"""The files of a volume by normalised path relative to it."""


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """The keys of a ConfigMap or Secret as files: all under their own names, or those in `items` at the paths there.

    `optional`: the object, or a key in `items`, may be missing.
    """

    ref: ObjectRef
    items: tuple[KeyToPath, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class TextSource:
    """One file with a field of the pod; `mode` defaults to the volume's."""

    path: str
    text: str
    mode: int | None


@dataclass(frozen=True, slots=True)
class IssuedSource:
    """One file with a token or certificate that the node's cluster issues; `mode` defaults to the volume's."""

    ref: ObjectRef
    key: str
    path: str
    mode: int | None
    owner: int | None


Source = ObjectSource | TextSource | IssuedSource


def sources(volume: Volume, path: str, pod: Pod, text_of: TextOf) -> tuple[Source, ...] | None:
    """Return the sources of a volume's files, in order; None for a volume that is not made of files.

    `path` is the volume's path in the pod. Raises PayloadError for a source that only an API server could provide, and
    the errors of `text_of`.
    """
    if (config_map := volume.config_map) is not None:
        return (_object(pod, "ConfigMap", config_map.name, config_map.items, config_map.optional),)
    if (secret := volume.secret) is not None:
        return (_object(pod, "Secret", secret.secret_name, secret.items, secret.optional),)
    if volume.downward_api is not None:
        return tuple(_counted(_texts(volume.downward_api.items, f"{path}.downwardAPI", text_of)))
    if volume.projected is not None:
        return tuple(
            _counted(
                source
                for index, part in enumerate(volume.projected.sources)
                for source in _projected(part, index, volume.name, f"{path}.projected.sources[{index}]", pod, text_of)
            )
        )
    return None


def default_mode(volume: Volume) -> int:
    """Return the default mode of a volume's files."""
    kinds = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    said = next((kind.default_mode for kind in kinds if kind is not None), None)
    return DEFAULT_MODE if said is None else said


def payload(sources: Sequence[Source], objects: Objects, mode: int) -> Payload:
    """Return the files of the sources, with `mode` unless an item sets another.

    If two files have the same path, the later wins. Raises PayloadError with every problem, in the kubelet's words
    (configmap.go and secret.go, MakePayload; projected.go, collectData; downwardapi.go, CollectData; v1.36).
    """
    files: dict[str, PayloadFile] = {}
    failures: list[PayloadError] = []
    size = 0
    for source in sources:
        try:
            for path, file in _files(source, objects, mode):
                size = _checked(size + len(file.data))
                files[path] = file
        except PayloadError as failure:
            failures.append(failure)
    if failures:
        messages = tuple(dict.fromkeys(str(failure) for failure in failures))
        text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
        raise PayloadError(text, *dict.fromkeys(ref for failure in failures for ref in failure.wants))
    _check_no_conflict(files)
    return files


def _counted(sources: Iterable[Source]) -> Iterator[Source]:
    """Yield the sources. Their texts are made one by one.

    Raises PayloadError once the texts are too large together.
    """
    size = 0
    for source in sources:
        if isinstance(source, TextSource):
            size = _checked(size + len(source.text))
        yield source


def _checked(size: int) -> int:
    """Return the size of a volume's files in bytes. Raises PayloadError if it is too large."""
    if size > MOST_BYTES:
        raise PayloadError(f"the files of the volume must have no more than {MOST_BYTES // 2**20} MiB together")
    return size


def _projected(
    part: VolumeProjection, index: int, volume: str, path: str, pod: Pod, text_of: TextOf
) -> Iterable[Source]:
    if (config_map := part.config_map) is not None:
        return (_object(pod, "ConfigMap", config_map.name, config_map.items, config_map.optional),)
    if (secret := part.secret) is not None:
        return (_object(pod, "Secret", secret.name, secret.items, secret.optional),)
    if part.downward_api is not None:
        return _texts(part.downward_api.items, f"{path}.downwardAPI", text_of)
    if is_of_cluster(pod.metadata) and (found := tuple(_issued(part, index, volume, pod))):
        return found
    kind = next((name for name in _OF_AN_API_SERVER if getattr(part, _OF_AN_API_SERVER[name]) is not None), "")
    raise PayloadError(f"{path}{kind and '.'}{kind}: {'no API server issues one here' if kind else 'has no source'}")


_OF_AN_API_SERVER: Final = {
    "serviceAccountToken": "service_account_token",
    "clusterTrustBundle": "cluster_trust_bundle",
    "podCertificate": "pod_certificate",
}


def _issued(part: VolumeProjection, index: int, volume: str, pod: Pod) -> Iterator[IssuedSource]:
    user, security = token_owner(pod), pod.spec.security_context
    is_given = user is not None or (security is not None and security.fs_group is not None)
    mode = _PRIVATE if is_given else None
    if (token := part.service_account_token) is not None:
        yield IssuedSource(token_ref(pod, token), TOKEN_KEY, token.path, mode, user)
    if (bundle := part.cluster_trust_bundle) is not None:
        yield IssuedSource(bundle_ref(pod, bundle), BUNDLE_KEY, bundle.path, mode, user)
    if (certificate := part.pod_certificate) is not None:
        ref = certificate_ref(pod, volume, index)
        wanted = (
            (BOTH_KEY, certificate.credential_bundle_path),
            (PRIVATE_KEY, certificate.key_path),
            (CHAIN_KEY, certificate.certificate_chain_path),
        )
        yield from (IssuedSource(ref, key, path, mode, user) for key, path in wanted if path)


def token_owner(pod: Pod) -> int | None:
    """Return the user that gets a pod's tokens and certificates: that of all its containers, None if they differ.

    Mirrors volume/util/util.go, v1.36, FsUserFrom.
    """
    whole = pod.spec.security_context.run_as_user if pod.spec.security_context is not None else None
    contexts = [each.security_context for each in (*pod.spec.init_containers, *pod.spec.containers)]
    users = {whole if each is None or each.run_as_user is None else each.run_as_user for each in contexts}
    return users.pop() if len(users) == 1 else None


def _object(pod: Pod, kind: Kind, name: str, items: tuple[KeyToPath, ...], optional: bool | None) -> ObjectSource:
    return ObjectSource(ref_for(pod, kind, name), items, bool(optional))


def _texts(items: Sequence[DownwardAPIVolumeFile], path: str, text_of: TextOf) -> Iterator[TextSource]:
    for index, item in enumerate(items):
        yield TextSource(item.path, text_of(item, f"{path}.items[{index}]"), item.mode)


def _files(source: Source, objects: Objects, mode: int) -> Iterator[tuple[str, PayloadFile]]:
    if isinstance(source, TextSource):
        yield _clean(source.path), PayloadFile(source.text.encode(), _or(source.mode, mode))
        return
    held = objects.get(source.ref)
    if isinstance(source, IssuedSource):
        if held is None:
            raise PayloadError(f"{source.ref} not found", source.ref)
        yield _clean(source.path), PayloadFile(held[source.key], _or(source.mode, mode), source.owner)
        return
    if held is None:
        if not source.optional:
            raise PayloadError(f"{source.ref} not found", source.ref)
        return
    if not source.items:
        yield from ((_clean(key), PayloadFile(data, mode)) for key, data in held.items())
    for item in source.items:
        if item.key in held:
            yield _clean(item.path), PayloadFile(held[item.key], mode if item.mode is None else item.mode)
        elif not source.optional:
            raise PayloadError(_MISSING_KEY[source.ref.kind].format(item.key), source.ref)


def _or(said: int | None, otherwise: int) -> int:
    return otherwise if said is None else said


def _clean(path: str) -> str:
    """Return a path without doubled slashes and dots. Raises PayloadError (atomic_writer.go, v1.36, validatePath)."""
    if not path:
        raise PayloadError('invalid path: must not be empty: ""')
    if path.startswith("/"):
        raise PayloadError(f"invalid path: must be relative path: {path}")
    if len(path.encode()) > _LONGEST_PATH:
        raise PayloadError(f"invalid path: must be less than or equal to {_LONGEST_PATH} characters")
    names = path.split("/")
    if ".." in names:
        raise PayloadError(f"invalid path: must not contain '..': {path}")
    if names[0].startswith(".."):
        raise PayloadError(f"invalid path: must not start with '..': {path}")
    if any(len(name.encode()) > _LONGEST_NAME for name in names):
        raise PayloadError(f"invalid path: filenames must be less than or equal to {_LONGEST_NAME} characters")
    clean = posixpath.normpath(path)
    if clean == "." or "\0" in path:
        raise PayloadError(f"invalid path: must name a file: {path!r}")
    return clean


def _check_no_conflict(files: Payload) -> None:
    """Raise PayloadError if a file has the same path as a directory of another file."""
    for path in files:
        above = posixpath.dirname(path)
        while above:
            if above in files:
                raise PayloadError(f"conflicting paths: {above} is to be a file, and a directory for {path}")
            above = posixpath.dirname(above)
