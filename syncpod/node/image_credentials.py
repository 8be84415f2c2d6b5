"""The node's own credentials for registries, which every pod on it may use: a file as `docker login` writes it.

Mirrors credentialprovider/provider.go, v1.36, defaultDockerConfigProvider.
"""

from __future__ import annotations

import logging
from pathlib import Path

from syncpod.cri.keyring import DockerConfigInvalid, Keyring, credentials_in

log = logging.getLogger("syncpod.images")


class NodeCredentials:
    """Reads the file whenever it has changed. Differences: only the one that is named counts, and at once.

    The kubelet looks in its own directory and its user's home, and believes for five minutes what it found. Of the
    file only `auths` counts, as there: helpers and stores of credentials are not asked.
    """

    def __init__(self, path: Path | None) -> None:
        """Take the file's path; None = the node has no credentials. It need not be there yet."""
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._keyring = Keyring()

    def keyring(self) -> Keyring:
        """Return what the file says now, nothing where it cannot be read, which the log then says once. Blocks."""
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
