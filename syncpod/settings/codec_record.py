"""Where a node's codec server is, and the token that it asks for: a file in the state directory, for its owner only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file

FILE_NAME: Final = "codec.json"


@dataclass(frozen=True)
class CodecRecord:
    """How to reach a codec server, and the signing proxy beside it."""

    endpoint: str
    """``http://127.0.0.1:port``."""
    proxy: str
    """The signing proxy before the Temporal server: ``127.0.0.1:port``."""
    token: str
    """What both ask for, as ``Authorization: Bearer <token>``; another one in each life of the worker."""
    page: str = ""
    """The endpoint for the Temporal UI, which a browser asks without that token: it decodes, and signs nothing. Anybody
    who knows this address can read encrypted payloads."""


def write_codec_record(state_dir: Path, record: CodecRecord) -> None:
    """Write the record. Atomic; readable by its owner only. Raises OSError."""
    replace_file(state_dir / FILE_NAME, json.dumps(asdict(record), indent=2) + "\n", durable=False)


def read_codec_record(state_dir: Path) -> CodecRecord | None:
    """Return the record; None if there is none, or this user may not read it. Its server may have ended since."""
    try:
        said = json.loads((state_dir / FILE_NAME).read_text())
        return CodecRecord(str(said["endpoint"]), str(said["proxy"]), str(said["token"]), str(said["page"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_codec_record(state_dir: Path) -> None:
    """Remove the record. Raises OSError."""
    (state_dir / FILE_NAME).unlink(missing_ok=True)
