"""The keys of a node whose payloads are encrypted."""

from __future__ import annotations

from collections.abc import Mapping

from syncpod.messages.signature import Keys


class EncryptingKeys:
    """The same keys, with which all payloads are encrypted too."""

    encrypts = True

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    @property
    def current(self) -> bytes:
        """The one that signs and encrypts."""
        return self._keys.current

    @property
    def by_id(self) -> Mapping[str, bytes]:
        """All of them: those that verify and decrypt."""
        return self._keys.by_id

    def number(self) -> int:
        """Return the next number of a command: higher than all before. Raises OSError."""
        return self._keys.number()
