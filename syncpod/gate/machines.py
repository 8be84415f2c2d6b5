"""Binds each certificate to the first machine that has called with it.

An invitation is a file, and a file can be copied. So each node makes itself a secret, in its state directory, and sends
a proof of it with each call. The gate records the first proof for a certificate, and refuses callers with any other, as
k3s refuses a second node of the same name with another node password. A node that leaves and joins again counts as the
same machine as long as it has its state directory. A node of an older version sends no proof: it is let in until
another caller has sent one.
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
"""The suffix of the file with the address of the caller that was refused last."""
_PROOF: Final = re.compile(r"[0-9a-f]{64}")


class Machines:
    """The proofs, by the serial numbers of certificates. Each method blocks, and raises OSError."""

    def __init__(self, directory: Path) -> None:
        """`directory` is the gate's own; only digests of the proofs are kept there."""
        self._directory = directory / DIRECTORY
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._known: dict[str, str] = {}

    def knows(self, serial: str, proof: str) -> bool:
        """Return whether this proof is the recorded one of this certificate, without reading the disk."""
        return serial in self._known and hmac.compare_digest(self._known[serial].encode(), _digest(proof).encode())

    def lets_in(self, serial: str, proof: str) -> bool:
        """Return whether a caller with this proof ("" = none) may use this certificate. The first proof is recorded."""
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
        """Record the address of the caller that was refused last."""
        replace_file(self._directory / f"{serial}{REFUSED}", f"{address}\n", durable=False)


def refused_from(gate: Path, serial: str) -> str:
    """Return the address of the last other machine that has called with this certificate; "" = there was none.

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
