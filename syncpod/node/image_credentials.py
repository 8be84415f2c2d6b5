"""The node's own registry credentials, which every pod on it may use. The file has the format of `docker login`.

Mirrors credentialprovider/provider.go, v1.36, defaultDockerConfigProvider.
"""

from __future__ import annotations

import logging
from pathlib import Path

from syncpod.cri.keyring import DockerConfigInvalid, Keyring, credentials_in

log = logging.getLogger("syncpod.images")


class NodeCredentials:
    """Reads the credentials whenever their file has changed.

    Differences: only the named file counts, and a change counts at once. The kubelet searches its own directory and its
    user's home, and caches the result for five minutes. As in the kubelet, only `auths` counts: credential helpers and
    stores are not used.
    """

    def __init__(self, path: Path | None) -> None:
        """Take the file's path, which need not exist yet; None means that the node has no credentials."""
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._keyring = Keyring()

    def keyring(self) -> Keyring:
        """Return the file's present credentials; none if it cannot be read, which is logged once. Blocks."""
        if self._path is None:
            return self._keyring
        try:
            status = self._path.stat()
            version = (status.st_mtime_ns, status.st_ino, status.st_size)
            if version != self._version:
                self._keyring = Keyring(credentials_in(self._path.read_bytes()))
                self._version = version
        except (OSError, DockerConfigInvalid) as error:
            why = error.strerror if isinstance(error, OSError) else error
            if self._version != _UNREADABLE:
                log.warning("no credentials of the node for registries: %s: %s", self._path, why)
            self._keyring, self._version = Keyring(), _UNREADABLE
        return self._keyring


_UNREADABLE = (-1, -1, -1)
