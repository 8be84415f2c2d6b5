"""When the last worker of this machine's node gave its last sign of life."""

from __future__ import annotations

import os
from datetime import datetime

from syncpod.cli.machine.object_store import memory_directory_of
from syncpod.journal.reading import last_sign_of
from syncpod.settings.node import NodeSettings
from syncpod.settings.variables import MEMORY_DIR


def last_sign(here: NodeSettings) -> datetime | None:
    """Return it; None if it is not known. After a reboot it may be a minute too early. Blocks."""
    return last_sign_of(here.state_dir, memory_directory_of(here, is_named=bool(os.environ.get(MEMORY_DIR))))
