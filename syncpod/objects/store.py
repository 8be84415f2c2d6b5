"""ConfigMaps and Secrets on the node's disk and in its memory: one file for each, replaced atomically.

The command line writes them and the worker reads them, concurrently and without communicating. ConfigMaps are below the
state directory, Secrets below a directory on a memory file system; both have the form of `kubectl get -o json`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from syncpod.kernel.atomic_file import replace_file, sync_directory
from syncpod.objects.former import FormerSecret, begin_knowing, former_secrets, keep_former, known_since
from syncpod.objects.refs import KINDS, ORIGINS, Kind, ObjectRef, Origin, ref_of
from syncpod.objects.replacing import Change, ObjectRefused, replaced
from syncpod.pod import ConfigMap, Secret
from syncpod.pod.kinds import values
from syncpod.pod.validation import syntax
from syncpod.pod.wire import to_wire

_DIRECTORIES: Final[dict[Kind, str]] = {"ConfigMap": "configmaps", "Secret": "secrets"}
ABSENT: Final = "absent"
"""The version of an object that does not exist in the cluster."""
_SUFFIX: Final = ".json"
_LONG: Final = "~"
"""The suffix of the file's name if an object's name is too long for the usual suffix: a file name has at most 255
bytes, an object's name up to 253."""
_LONGEST_WITH_SUFFIX: Final = 255 - len(_SUFFIX)
MOST_VALUES: Final = 10_000
"""Maximum number of Secrets' values on a node, including the former values that containers received. The worker
searches all its output for each value, and a value takes about 4 KiB of the worker's memory."""
_LEAST_BYTES: Final = 12
"""Minimum bytes of a value in a Secret's file, with its key."""
_DRAFT: Final = ".draft"
_LOCK: Final = ".lock"


_reasons: Final[dict[tuple[Path, ObjectRef], str]] = {}
"""The reason why an object of a cluster is not stored yet, by object. All stores of a process share this: its steps
have one, and its agent has one."""


class ObjectUnreadable(ValueError):
    """A file of the store is damaged, or was not written by the store.

    The text names the file, and shows nothing of its content.
    """


class ObjectUnknown(ObjectUnreadable):
    """The node does not know yet whether its cluster has an object, or has no token or place yet.

    The text is in the kubelet's words. Mirrors util/manager/watch_based_manager.go, v1.36, Get (after a vain wait),
    token/token_manager.go, and volumemanager/populator/desired_state_of_world_populator.go.
    """

    def __init__(self, ref: ObjectRef, why: str) -> None:
        match ref.origin:
            case "token":
                text = f"failed to fetch token: {why or 'no answer yet'}"
            case "claim":
                text = f"error processing PVC {why or 'no answer yet'}"
            case "bundle" | "certificate" | "inline":
                text = why or "no answer yet"
            case "services":
                text = "services have not yet been read at least once, cannot construct envvars"
            case _:
                text = f"failed to sync {ref.kind.lower()} cache: timed out waiting for the condition"
        super().__init__(text)


class ObjectStore:
    """The ConfigMaps and Secrets of one node. Every method blocks, and may be called by several processes at once.

    Objects of its Kubernetes cluster are separate from those that were applied on the node, even if their names are
    equal. Only `keep`, `note_absent` and `forget` change the cluster's objects, and only `get`, `versions` and `former`
    return them.

    `state_dir` and `memory_dir` are private to this user; missing directories below them are made with mode 0700, files
    have 0600. A reader gets the whole object from before or after a put, even after a crash. All methods raise OSError
    if the file system fails.
    """

    def __init__(self, state_dir: Path, memory_dir: Path) -> None:
        self._roots: dict[Kind, Path] = {"ConfigMap": state_dir / "objects", "Secret": memory_dir / "objects"}

    def put(self, wanted: ConfigMap | Secret) -> Change:
        """Store an admitted object, replacing one of the same name; it is on disk when this returns.

        Raises ObjectUnreadable, ValueError for an invalid name, and ObjectRefused for a change of an immutable field or
        for too many Secrets.
        """
        with self._locked(wanted.kind):
            kept, change = self._replaced(wanted)
            if change != "unchanged":
                self._require_room(kept)
                held = self.get(ref_of(kept))
                if held is not None and values(held) != values(kept):
                    self._keep_former(ref_of(kept))
                self._write(ref_of(kept), _to_json(kept))
            return change

    def would_put(self, wanted: ConfigMap | Secret) -> Change:
        """Return the change that a put would make now, without writing. Raises the errors of `put`."""
        return self._replaced(wanted)[1]

    def add(self, wanted: ConfigMap | Secret) -> bool:
        """Store an admitted object if none with its name exists; return whether it was stored."""
        with self._locked(wanted.kind):
            if self.get(ref_of(wanted)) is not None:
                return False
            kept = self._replaced(wanted)[0]
            self._require_room(kept)
            self._write(ref_of(kept), _to_json(kept))
            return True

    def keep(self, found: ConfigMap | Secret, origin: Origin = "cluster") -> bool:
        """Store the current version of an object of the cluster; return whether it differs from the stored one.

        Raises ObjectRefused for too many Secrets, ValueError for an invalid name.
        """
        ref = ref_of(found, origin)
        _require_name(ref)
        with self._locked(ref.kind):
            try:
                held = self.get(ref)
            except ObjectUnreadable:
                held = None
            if held == found:
                return False
            self._require_room(found, origin)
            if held is not None and values(held) != values(found):
                self._keep_former(ref)
            self._write(ref, _to_json(found))
            return True

    def note_absent(self, ref: ObjectRef) -> None:
        """Record that the cluster has no such object. Raises ValueError for an invalid name."""
        _require_name(ref)
        with self._locked(ref.kind):
            if self.version(ref) != ABSENT:
                self._keep_former(ref)
                self._write(ref, b"")

    def forget(self, ref: ObjectRef) -> None:
        """Remove an object of the cluster from the store, and the record that the cluster lacks it."""
        self.delete(ref)
        self.explain(ref, "")

    def explain(self, ref: ObjectRef, why: str) -> None:
        """Record for this process why an object of the cluster is not stored yet; "" = no reason is known."""
        place = self._file(ref), ref
        if why:
            _reasons[place] = why
        else:
            _reasons.pop(place, None)

    def version(self, ref: ObjectRef) -> str | None:
        """Return one object's version, as `versions` has it; None if there is no such object."""
        try:
            return _version(ref, self._file(ref).lstat()) if _is_name(ref) else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def get(self, ref: ObjectRef) -> ConfigMap | Secret | None:
        """Return the object, or None if it does not exist.

        Raises ObjectUnreadable, and ObjectUnknown for an object of the cluster that is not stored yet.
        """
        if not _is_name(ref):
            return None
        text = _text(self._file(ref))
        if ref.is_clusters:
            if text is None:
                raise ObjectUnknown(ref, _reasons.get((self._file(ref), ref), ""))
            if not text:
                return None
        return None if text is None else _parsed(text, self._file(ref), ref.kind)

    def list(self, kind: Kind, namespace: str | None = None) -> tuple[ConfigMap | Secret, ...]:
        """Return all objects of a kind, in one namespace or all, sorted by namespace and name.

        Objects of the cluster are not included. Raises ObjectUnreadable.
        """
        refs = sorted(ref for ref, _entry in self._entries(kind, ("",)) if namespace in (None, ref.namespace))
        found = (self.get(ref) for ref in refs)
        return tuple(held for held in found if held is not None)

    def delete(self, ref: ObjectRef) -> bool:
        """Remove an object, even an unreadable one; return whether it existed."""
        file = self._file(ref)
        if not _is_name(ref) or not os.path.lexists(file):
            return False
        with self._locked(ref.kind):
            # The draft of a put that was killed is removed too.
            self._draft(ref.kind).unlink(missing_ok=True)
            try:
                self._keep_former(ref)
                file.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return False
            sync_directory(file.parent)
            with contextlib.suppress(OSError):  # not empty: the namespace has other objects
                file.parent.rmdir()
            return True

    def versions(self) -> dict[ObjectRef, str]:
        """Return a version of each object, which changes when the object does. No file is opened.

        Objects that the cluster lacks are among them, with the version `ABSENT`.
        """
        return {ref: _version(ref, status) for kind in KINDS for ref, status in self._entries(kind)}

    def former(self) -> tuple[tuple[FormerSecret, Secret], ...]:
        """Return the former versions of changed and deleted Secrets that containers may have received.

        Read the current Secrets before the former ones, so that no value is missed that changes in between.
        """
        return tuple(former_secrets(self._roots["Secret"]))

    def begin_knowing(self) -> None:
        """Record that each value that a container receives from now on is kept."""
        with self._locked("Secret"):
            pass

    def known_since(self) -> float | None:
        """Return since when all values that containers receive are kept, in seconds since 1970; None = never."""
        return known_since(self._roots["Secret"])

    def _keep_former(self, ref: ObjectRef) -> None:
        """Keep the current values of a Secret, which is about to change. The caller holds the lock."""
        # A token's Secret has the previous token too, and older ones are no longer valid.
        if ref.kind == "Secret" and ref.origin != "token" and self.version(ref) not in (None, ABSENT):
            keep_former(self._roots["Secret"], self._file(ref), ref.origin)

    def _require_room(self, kept: ConfigMap | Secret, origin: Origin = "") -> None:
        """Raise ObjectRefused for a Secret with more values than this node can hide. The caller holds the lock."""
        if not isinstance(kept, Secret):
            return
        more, directory = len(values(kept)), self._roots["Secret"] / "former"
        files = [status.st_size for _, status in self._entries("Secret")]
        files += [each.stat(follow_symlinks=False).st_size for each in _scan(directory)]
        # Most nodes have so few values that the files need not be read.
        if more + sum(files) // _LEAST_BYTES <= MOST_VALUES:
            return
        others = sorted(ref for ref, _ in self._entries("Secret") if ref != ref_of(kept, origin))
        held = [secret for ref in others if (secret := self.get(ref)) is not None]
        now = more + sum(len(values(secret)) for secret in held)
        former = sum(len(values(secret)) for _, secret in self.former())
        if now + former > MOST_VALUES:
            raise ObjectRefused(
                f'The Secret "{kept.metadata.name}" is refused: the node hides at most {MOST_VALUES} values of Secrets '
                f"in messages, and with this one it would have {now}, and {former} earlier ones that containers were "
                "given: delete Secrets that no pod uses, or pods that are older than the changes"
            )

    def _entries(self, kind: Kind, origins: tuple[Origin, ...] = ORIGINS) -> Iterator[tuple[ObjectRef, os.stat_result]]:
        """Yield the objects of a kind, in no order; one that is added or removed meanwhile may be missed."""
        for origin in origins:
            for namespace in _scan(self._directory(kind, origin)):
                if not namespace.is_dir(follow_symlinks=False):
                    continue
                for entry in _scan(Path(namespace.path)):
                    ref = ObjectRef(kind, namespace.name, _object_name(entry.name), origin)
                    if _is_name(ref):
                        with contextlib.suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            if stat.S_ISREG(status.st_mode):
                                yield ref, status

    def _replaced(self, wanted: ConfigMap | Secret) -> tuple[ConfigMap | Secret, Change]:
        ref = ref_of(wanted)
        _require_name(ref)
        now = datetime.now(UTC).replace(microsecond=0)
        return replaced(self.get(ref), wanted, now=now, uid=str(uuid.uuid4()))

    def _file(self, ref: ObjectRef) -> Path:
        return self._directory(ref.kind, ref.origin) / ref.namespace / _file_name(ref.name)

    def _directory(self, kind: Kind, origin: Origin) -> Path:
        return self._roots[kind] / f"{origin}{origin and '-'}{_DIRECTORIES[kind]}"

    def _draft(self, kind: Kind) -> Path:
        return self._roots[kind] / _DRAFT

    def _write(self, ref: ObjectRef, text: bytes) -> None:
        """Replace the object's file. The caller holds the lock, so any draft there is the remainder of a killed put."""
        file = self._file(ref)
        _make_private(file.parent)
        replace_file(file, text, durable=True, draft=self._draft(ref.kind))

    @contextlib.contextmanager
    def _locked(self, kind: Kind) -> Iterator[None]:
        """Keep out other writers of this kind. The lock ends with the process that holds it."""
        root = self._roots[kind]
        _make_private(root)
        lock = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if kind == "Secret":
                begin_knowing(root)
            yield
        finally:
            os.close(lock)


def _is_name(ref: ObjectRef) -> bool:
    """Return whether this is a valid name. An invalid one names no object and never becomes part of a path."""
    return not syntax.dns_label(ref.namespace) and not syntax.dns_subdomain(ref.name)


def _require_name(ref: ObjectRef) -> None:
    """Raise ValueError for an invalid name."""
    if not _is_name(ref):
        raise ValueError(f"{ref}: metadata.namespace and metadata.name must be names of directories and files")


def _version(ref: ObjectRef, status: os.stat_result) -> str:
    if ref.is_clusters and status.st_size == 0:
        return ABSENT
    return f"{status.st_mtime_ns}-{status.st_ino}-{status.st_size}"


def _file_name(name: str) -> str:
    return f"{name}{_SUFFIX}" if len(name) <= _LONGEST_WITH_SUFFIX else f"{name}{_LONG}"


def _object_name(file_name: str) -> str:
    """Return the name of the object in a file with this name; "" if the store gives no file this name."""
    name = file_name.removesuffix(_SUFFIX if file_name.endswith(_SUFFIX) else _LONG)
    return name if _file_name(name) == file_name else ""


def _to_json(kept: ConfigMap | Secret) -> bytes:
    return json.dumps(to_wire(kept), ensure_ascii=False).encode()


def _text(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _parsed(text: bytes, file: Path, kind: Kind) -> ConfigMap | Secret:
    try:
        return ConfigMap.model_validate_json(text) if kind == "ConfigMap" else Secret.model_validate_json(text)
    except ValidationError:  # its text would show the file's content
        raise ObjectUnreadable(f"{file}: holds no {kind}: delete it, and apply it again") from None


def _scan(directory: Path) -> tuple[os.DirEntry[str], ...]:
    try:
        with os.scandir(directory) as entries:
            return tuple(entries)
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _make_private(directory: Path) -> None:
    """Make a directory and its missing parents, accessible only to this user."""
    for missing in reversed([path for path in (directory, *directory.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
