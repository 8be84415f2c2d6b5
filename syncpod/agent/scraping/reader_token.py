"""The token that a reader of ``/pods`` has to show: a file in the state directory that only its owner may read."""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file

FILE_NAME: Final = "reader-token"
_SHORTEST: Final = 32


class ReaderToken:
    """The token of one node. It is created only once, so that readers that are configured with it keep working."""

    def __init__(self, state_dir: Path) -> None:
        """Read the token of this directory, or create one. Blocks. Raises OSError."""
        path = state_dir / FILE_NAME
        try:
            self._text = path.read_text().strip()
        except (FileNotFoundError, UnicodeDecodeError):
            self._text = ""
        if len(self._text) < _SHORTEST or path.stat().st_mode & 0o077:  # others may have read it
            self._text = secrets.token_urlsafe(32)
            replace_file(path, f"{self._text}\n", durable=False)

    def is_shown(self, authorization: str) -> bool:
        """Say whether an Authorization header has the token."""
        scheme, _, shown = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self._text.encode())
