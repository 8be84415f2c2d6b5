"""Which machine uses each certificate: the first that has called with it, and no other.

An invitation is a file, and a file can be copied. So each node makes itself a secret, in its state directory, and shows
a proof of it with each call. The gate keeps what the first caller with a certificate has shown, and refuses the others:
as k3s refuses a second node of a name that has another node password. A node that leaves and joins again is the same
one as long as it has its state directory. An older version shows nothing, and is let in until another has shown a
proof.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file

DIRECTORY: Final = "machines"
REFUSED: Final = ".refused"
"""The suffix of the file that names who was refused last."""
_PROOF: Final = re.compile(r"[0-9a-f]{64}")


class Machines:
    """The proofs, by the serial numbers of certificates. Each method blocks, and raises OSError."""

    def __init__(self, directory: Path) -> None:
        """`directory` is the gate's own; what is kept there has no secret."""
        self._directory = directory / DIRECTORY
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._known: dict[str, str] = {}

    def knows(self, serial: str, proof: str) -> bool:
        """Say whether this proof was shown with this certificate before, without a look at the disk."""
        return serial in self._known and hmac.compare_digest(self._known[serial].encode(), _digest(proof).encode())

    def lets_in(self, serial: str, proof: str) -> bool:
        """Say whether who shows this proof with this certificate, "" = none, may use it. The first to show one may."""
        path = self._directory / serial
        if serial not in self._known:
            if _PROOF.fullmatch(proof) is not None:
                _keep_first(path, _digest(proof))
            try:
                self._known[serial] = path.read_text(errors="replace").strip()
            except FileNotFoundError:
                return True
        return self.knows(serial, proof)

    def note_refused(self, serial: str, address: str) -> None:
        """Keep where the last call came from that was refused."""
        replace_file(self._directory / f"{serial}{REFUSED}", f"{address}\n", durable=False)


def refused_from(gate: Path, serial: str) -> str:
    """Return the address of the last caller with this certificate that was another machine; "" = there was none.

    `gate` is the gate's own directory. Blocks. Raises OSError.
    """
    try:
        return (gate / DIRECTORY / f"{serial}{REFUSED}").read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""


def _keep_first(path: Path, digest: str) -> None:
    """Make a file with this content, unless there is one."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    replace_file(draft, f"{digest}\n", durable=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _digest(proof: str) -> str:
    return hashlib.sha256(proof.encode()).hexdigest()
