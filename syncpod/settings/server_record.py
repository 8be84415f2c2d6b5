"""The file in a node's state directory that says which Temporal server of it runs, as the command line writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

FILE_NAME: Final = "server.json"


def recorded_server_pid(state_dir: Path) -> int | None:
    """Return the process of the server that the directory has recorded last; None if it has none.

    The server may have ended, and the number may be another process's by now. Blocks.
    """
    try:
        pid = json.loads((state_dir / FILE_NAME).read_text())["process"]["pid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if isinstance(pid, int) and pid > 0 else None
