"""Records the images that this node has pulled, and their credentials, to decide which pods may use a present image.

Once an image has been pulled with a Secret, any pod of the node could start it. So each pull leaves a record, and the
registry checks a pod without these credentials again. The files below `<state>/image_manager` have the kubelet's
format: `pulling/` has the intents, and `pulled/` the outcomes; a file's name is the SHA-256 of its image. The files
have hashes of credentials, never credentials.

Mirrors images/pullmanager, v1.36 (KubeletEnsureSecretPulledImages).
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from syncpod.cri.keyring import Credential
from syncpod.kernel.atomic_file import replace_file
from syncpod.node.verification import Verification, without_tag_and_digest

log = logging.getLogger("syncpod.images")

SECRETS_KEPT: Final = 100
"""Maximum number of Secrets in an image's record; a check of access then adds no more. Otherwise the record would grow
with each Secret that ever had access."""

_PREFIX: Final = "sha256-"
_DRAFT: Final = ".tmp"


_API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True
    )


class PullSecret(_Record):
    """A Secret that an image was pulled with, and the hash of its credentials at that time."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    credential_hash: str = ""

    @property
    def coordinates(self) -> tuple[str, str, str]:
        """Namespace, name and UID of the Secret."""
        return self.namespace, self.name, self.uid


class ImagePullCredentials(_Record):
    """The Secrets, or pods, that have been shown to have access to an image."""

    kubernetes_secrets: tuple[PullSecret, ...] = ()
    node_pods_accessible: bool = False
    """True if every pod of the node may use the image: it was pulled without credentials, or with the node's own."""


class PulledRecord(_Record):
    """One image that this node has pulled."""

    kind: Literal["ImagePulledRecord"] = "ImagePulledRecord"
    api_version: str = _API_VERSION
    last_updated_time: datetime
    image_ref: str
    """The image's id in the runtime."""
    credential_mapping: dict[str, ImagePullCredentials] = Field(default_factory=dict)
    """The known accesses, by the image's name in pods, without tag and digest. Empty if the credentials are unknown, so
    that every pod must show its own."""

    @property
    def subject(self) -> str:
        """The text whose hash is the file's name."""
        return self.image_ref


class _Intent(_Record):
    kind: Literal["ImagePullIntent"] = "ImagePullIntent"
    api_version: str = _API_VERSION
    image: str

    @property
    def subject(self) -> str:
        return self.image


_T = TypeVar("_T", PulledRecord, _Intent)


def pulled_images(state_dir: Path) -> tuple[PulledRecord, ...]:
    """Return the records of all images that this node has pulled, present or not.

    This is for other processes; the worker uses its `PullRecords`. Unreadable records are left out. Blocks. Raises
    OSError.
    """
    return tuple(record for _, record in _read_all(state_dir / "image_manager" / "pulled", PulledRecord) if record)


class PullRecords:
    """The records of one node, owned by its worker: read once, then kept in memory and on disk.

    Thread-safe. Only `needs_credentials` never blocks; the other methods may write files.
    """

    def __init__(self, state_dir: Path, verification: Verification) -> None:
        """Read the records on disk. Blocks. Raises OSError."""
        self._pulling = state_dir / "image_manager" / "pulling"
        self._pulled = state_dir / "image_manager" / "pulled"
        self._verification = verification
        self._lock = threading.RLock()
        self._under_way: dict[str, int] = {}
        self._unreadable = {path.name for path, record in _read_all(self._pulled, PulledRecord) if record is None}
        self._records = {record.image_ref: record for record in _readable(self._pulled, PulledRecord)}
        self._intents = {intent.image for intent in _readable(self._pulling, _Intent)}

    # --- deciding -----------------------------------------------------------------------------------------------------

    def needs_credentials(self, image: str, image_ref: str) -> bool:
        """Return whether the result of `may_use` could depend on a pod's credentials."""
        with self._lock:
            found = self._accessible(image, image_ref)
            return not isinstance(found, bool)

    def may_use(self, image: str, image_ref: str, credentials: Iterable[Credential]) -> bool:
        """Return whether a pod may use a present image; if not, the registry must check the pod's credentials.

        `image` is the name that the pod uses, `image_ref` the image's id, and `credentials` are the pod's for the
        registry. The same credentials from another Secret are accepted, and so is the same Secret with new credentials;
        both are recorded (image_pull_manager.go, v1.36, MustAttemptImagePull, which returns the opposite). Blocks if
        `credentials` is not empty.
        """
        with self._lock:
            found = self._accessible(image, image_ref)
            if isinstance(found, bool):
                return found
            for shown in (_secret_of(credential) for credential in credentials):
                if shown is not None and any(_same(shown, known) for known in found.kubernetes_secrets):
                    if len(found.kubernetes_secrets) < SECRETS_KEPT:
                        self._remember(image, image_ref, ImagePullCredentials(kubernetes_secrets=(shown,)))
                    return True
            return False

    def _accessible(self, image: str, image_ref: str) -> bool | ImagePullCredentials:
        """Return True if every pod may use an image, False if none, else the Secrets that give access."""
        record = self._records.get(image_ref)
        unreadable = _file_name(image_ref) in self._unreadable
        ours = record is not None or unreadable or image in self._under_way or image in self._intents
        if unreadable or not self._verification.is_needed(image, pulled_by_us=ours):
            return not unreadable
        known = record.credential_mapping.get(without_tag_and_digest(image)) if record is not None else None
        if known is None:
            return False
        if known.node_pods_accessible:
            return True
        return known if known.kubernetes_secrets else False

    # --- recording ----------------------------------------------------------------------------------------------------

    def intend(self, image: str) -> None:
        """Record that a pull begins, so that its image counts as pulled by us even after a crash. Blocks.

        Raises OSError.
        """
        with self._lock:
            if image not in self._under_way:
                _replace(self._pulling / _file_name(image), _Intent(image=image))
            self._under_way[image] = self._under_way.get(image, 0) + 1

    def pulled(self, image: str, image_ref: str, credential: Credential | None) -> None:
        """Record that a pull has succeeded, and with which credentials. Blocks.

        If the record cannot be written, the intent stays for the next worker to resolve; the pull still counts as
        successful.
        """
        secret = _secret_of(credential) if credential is not None else None
        seen = (
            ImagePullCredentials(kubernetes_secrets=(secret,))
            if secret
            else ImagePullCredentials(node_pods_accessible=True)
        )
        with self._lock:
            if self._remember(image, image_ref, seen):
                self._forget_intent(image)

    def failed(self, image: str) -> None:
        """Record that a pull has failed. Blocks."""
        with self._lock:
            self._forget_intent(image)

    def _remember(self, image: str, image_ref: str, seen: ImagePullCredentials | None) -> bool:
        """Merge an access into the image's record; None records only the pull.

        Return whether the record is on disk.
        """
        record = self._records.get(image_ref) or PulledRecord(last_updated_time=_now(), image_ref=image_ref)
        mapping = dict(record.credential_mapping)
        if seen is not None:
            name = without_tag_and_digest(image)
            mapping[name] = _merged(mapping.get(name), seen)
        if image_ref in self._records and mapping == record.credential_mapping:
            return True
        changed = record.model_copy(update={"last_updated_time": _now(), "credential_mapping": mapping})
        self._records[image_ref] = changed
        try:
            _replace(self._pulled / _file_name(image_ref), changed)
        except OSError as error:
            log.warning("cannot record how %s was pulled: %s", image, error)
            return False
        self._unreadable.discard(_file_name(image_ref))
        return True

    def _forget_intent(self, image: str) -> None:
        left = self._under_way.get(image, 0) - 1
        if left > 0:
            self._under_way[image] = left
            return
        self._under_way.pop(image, None)
        self._intents.discard(image)
        try:
            (self._pulling / _file_name(image)).unlink(missing_ok=True)
        except OSError as error:
            log.warning("the note of a pull of %s could not be removed: %s", image, error)

    # --- the worker's life --------------------------------------------------------------------------------------------

    async def recover(self, find: Callable[[str], Awaitable[str | None]]) -> None:
        """Resolve the pulls that an earlier worker left: each existing image gets a record without credentials.

        `find` returns the id of a present image. Difference: each name is looked up in the runtime, while the kubelet
        compares texts and so misses names without a registry.
        """
        for image in sorted(self._intents):
            image_ref = await find(image)
            with self._lock:
                if image in self._under_way:
                    continue
                if image_ref is None or self._remember(image, image_ref, None):
                    self._forget_intent(image)

    def prune(self, present: Collection[str], *, before: datetime) -> None:
        """Delete the records of images that are not `present` (ids), unless pulled after `before`. Blocks.

        Mirrors PruneUnknownRecords, for image garbage collection; `before` is when the listing of images began.
        """
        with self._lock:
            for image_ref, record in list(self._records.items()):
                if image_ref in present or record.last_updated_time >= before:
                    continue
                try:
                    (self._pulled / _file_name(image_ref)).unlink(missing_ok=True)
                except OSError as error:
                    log.warning("the record of image %s could not be removed: %s", image_ref, error)
                else:
                    del self._records[image_ref]


def _secret_of(credential: Credential) -> PullSecret | None:
    source = credential.source
    if source is None:
        return None
    return PullSecret(uid=source.uid, namespace=source.namespace, name=source.name, credential_hash=credential.hash)


def _same(shown: PullSecret, known: PullSecret) -> bool:
    """Return whether this Secret has the access of a known one: it is that Secret, or has the same credentials."""
    same_words = bool(known.credential_hash) and shown.credential_hash == known.credential_hash
    return same_words or shown.coordinates == known.coordinates


def _merged(known: ImagePullCredentials | None, seen: ImagePullCredentials) -> ImagePullCredentials:
    """Add an access to the known ones; an access for every pod replaces all others."""
    if known is None or known.node_pods_accessible or seen.node_pods_accessible:
        return known if known is not None and known.node_pods_accessible else seen
    secrets = {secret.coordinates: secret for secret in (*known.kubernetes_secrets, *seen.kubernetes_secrets)}
    return ImagePullCredentials(kubernetes_secrets=tuple(secrets[each] for each in sorted(secrets)))


# --- files ------------------------------------------------------------------------------------------------------------


def _now() -> datetime:
    return datetime.now(UTC)


def _file_name(name: str) -> str:
    return f"{_PREFIX}{hashlib.sha256(name.encode()).hexdigest()}"


def _readable(directory: Path, model: type[_T]) -> Iterator[_T]:
    for path, record in _read_all(directory, model):
        if record is not None:
            yield record
        else:
            log.warning("%s cannot be read: its image has to be verified", path)


def _read_all(directory: Path, model: type[_T]) -> Iterator[tuple[Path, _T | None]]:
    """Yield each record file and its record; the record is None if it is invalid or under a wrong name."""
    for path in sorted(directory.glob(f"{_PREFIX}*")):
        if path.suffix == _DRAFT:
            continue
        try:
            record = model.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            continue
        except ValidationError:
            yield path, None
            continue
        yield path, record if _file_name(record.subject) == path.name else None


def _replace(path: Path, record: PulledRecord | _Intent) -> None:
    """Replace a file atomically, with mode 0600 in directories of mode 0700. Raises OSError."""
    for directory in reversed(path.parents[:3]):  # the state directory too, if it does not exist yet
        directory.mkdir(mode=0o700, exist_ok=True)
    replace_file(path, record.model_dump_json(), durable=False, draft=path.with_name(f"{path.name}{_DRAFT}"))
