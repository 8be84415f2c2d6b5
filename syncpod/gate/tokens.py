"""Task tokens that only the node that received them can use.

Temporal's token names a task, but not a node. The gate puts an authentication code before the token, over the node's
name and the token, with a key that only the gate has. So the gate recognizes a node's own tokens without a table, even
after a restart, and refuses those of other nodes and forged ones.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.settings.values import SettingsInvalid

KEY_FILE: Final = "token.key"
_KEY_BYTES: Final = 32
_PREFIX: Final = b"sp1."
_CODE_BYTES: Final = 32


class TaskTokens:
    """Binds tokens to nodes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def bind(self, node: str, token: bytes) -> bytes:
        """Return the node's token for a token of the server."""
        return _PREFIX + self._code(node, token) + token

    def unbind(self, node: str, bound: bytes) -> bytes | None:
        """Return the server's token for a node's token; None if this node was never given it."""
        code, token = bound[len(_PREFIX) :][:_CODE_BYTES], bound[len(_PREFIX) + _CODE_BYTES :]
        is_ours = bound.startswith(_PREFIX) and hmac.compare_digest(code, self._code(node, token))
        return token if is_ours else None

    def _code(self, node: str, token: bytes) -> bytes:
        # A node's name has no zero byte, so two different pairs of name and token never give the same bytes.
        return hmac.digest(self._key, node.encode() + b"\0" + token, hashlib.sha256)


def task_tokens(directory: Path) -> TaskTokens:
    """Return the tokens of the gate with this directory. Its key is made at the first use.

    Raises OSError, and SettingsInvalid if the key's file does not hold a key.
    """
    path = directory / KEY_FILE
    if not path.exists():
        replace_file(path, secrets.token_bytes(_KEY_BYTES).hex() + "\n", durable=True)
    try:
        key = bytes.fromhex(path.read_text().strip())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SettingsInvalid(f"{path}: is not a key: remove it, and tasks under way are given to their nodes again")
    return TaskTokens(key)
