"""Encrypted copies on disk of a cluster's Secrets and tokens, so that pods start after a reboot without the cluster.

Copies are made only with `--keep-secrets`; otherwise Secrets and tokens are only in memory. Each copy is a file,
encrypted with AES-256-GCM and bound to its object's name, so that no copy can replace another. The key lies beside the
copies, with mode 0600.

So a copy alone, in a backup or a reused disk block, reveals nothing. But anybody who can read the whole state directory
can read the Secrets.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.objects import ObjectRef, ObjectStore, Origin
from syncpod.pod import ConfigMap, Secret
from syncpod.pod.wire import to_wire

if TYPE_CHECKING:  # it is slow to import, and a worker without copies does not need it
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

log = logging.getLogger(__name__)

_DIRECTORY: Final = "kept-secrets"
_KEY: Final = "key"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_ORIGINS: Final[tuple[Origin, ...]] = ("cluster", "token", "certificate")


class KeepingStore(ObjectStore):
    """A node's store that also keeps copies of the cluster's Secrets and tokens on disk. Every method blocks."""

    def __init__(self, state_dir: Path, memory_dir: Path) -> None:
        super().__init__(state_dir, memory_dir)
        self._copies = _Copies(state_dir)

    def keep(self, found: ConfigMap | Secret, origin: Origin = "cluster") -> bool:
        """Keep the present version of an object of the cluster, with its copy. Raises as the store does."""
        changed = super().keep(found, origin)
        ref = ObjectRef(found.kind, found.metadata.namespace, found.metadata.name, origin)
        if _is_copied(ref) and (changed or not self._copies.has(ref)):
            self._copies.write(ref, _text(found))
        return changed

    def note_absent(self, ref: ObjectRef) -> None:
        """Record that the cluster has no such object; the record survives a reboot."""
        super().note_absent(ref)
        if _is_copied(ref):
            self._copies.write(ref, b"")

    def forget(self, ref: ObjectRef) -> None:
        """Remove an object of the cluster, and its copy."""
        super().forget(ref)
        if _is_copied(ref):
            self._copies.remove(ref)


def restore_kept_secrets(state_dir: Path, store: ObjectStore) -> None:
    """Restore the objects that the store has lost by a reboot, and write missing copies. Raises OSError.

    A copy that cannot be read is removed.
    """
    from cryptography.exceptions import InvalidTag

    copies = _Copies(state_dir)
    for ref in copies.all():
        if store.version(ref) is not None:
            continue
        try:
            text = copies.read(ref)
            if text:
                store.keep(Secret.model_validate_json(text), ref.origin)
            else:
                store.note_absent(ref)
        except (InvalidTag, ValueError):  # an error's text could show the content
            log.warning("the copy of %s in namespace %s cannot be read, and is removed", ref, ref.namespace)
            copies.remove(ref)
    for ref in filter(_is_copied, store.versions()):  # an object from before `--keep-secrets` has no copy
        if not copies.has(ref):
            held = store.get(ref)
            copies.write(ref, b"" if held is None else _text(held))


def remove_kept_secrets(state_dir: Path) -> None:
    """Remove all copies, and their key. Raises OSError."""
    try:
        shutil.rmtree(state_dir / _DIRECTORY)
    except FileNotFoundError:
        return


def _text(found: ConfigMap | Secret) -> bytes:
    return json.dumps(to_wire(found)).encode()


def _is_copied(ref: ObjectRef) -> bool:
    return ref.kind == "Secret" and ref.origin in _ORIGINS


class _Copies:
    """The files of the copies, each at `<origin>/<namespace>/<name>`. May be used from any thread."""

    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir / _DIRECTORY
        self._cipher: AESGCM | None = None
        self._alone = threading.Lock()
        """Held while a thread writes: all threads share one draft file, and the first one makes the key."""

    def has(self, ref: ObjectRef) -> bool:
        return self._file(ref).is_file()

    def write(self, ref: ObjectRef, text: bytes) -> None:
        file, nonce = self._file(ref), os.urandom(_NONCE_BYTES)
        with self._alone:
            sealed = nonce + self._opened().encrypt(nonce, text, _name(ref))
            for directory in (file.parent.parent, file.parent):
                directory.mkdir(mode=0o700, exist_ok=True)
            replace_file(file, sealed, durable=True, draft=self._root / ".draft")

    def read(self, ref: ObjectRef) -> bytes:
        """Return a copy's text. Raises InvalidTag, ValueError, OSError."""
        sealed = self._file(ref).read_bytes()
        return self._opened().decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _name(ref))

    def remove(self, ref: ObjectRef) -> None:
        self._file(ref).unlink(missing_ok=True)

    def all(self) -> Iterator[ObjectRef]:
        for origin in _ORIGINS:
            for file in sorted((self._root / origin).glob("*/*")):
                if stat.S_ISREG(file.lstat().st_mode):
                    yield ObjectRef("Secret", file.parent.name, file.name, origin)

    def _file(self, ref: ObjectRef) -> Path:
        return self._root / ref.origin / ref.namespace / ref.name

    def _opened(self) -> AESGCM:
        """Return the cipher; make its key if there is none."""
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            key = self._root / _KEY
            try:
                found = key.read_bytes()
            except FileNotFoundError:
                found = os.urandom(_KEY_BYTES)
                replace_file(key, found, durable=True)
            self._cipher = AESGCM(found)
        return self._cipher


def _name(ref: ObjectRef) -> bytes:
    return f"{ref.origin}/{ref.namespace}/{ref.name}".encode()
