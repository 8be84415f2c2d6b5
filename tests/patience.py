"""How long tests wait for expected events: long enough for a busy machine, and longer on an emulated one."""

from __future__ import annotations

import os
from typing import Final

TIMES: Final = float(os.environ.get("SYNCPOD_PATIENCE", "1"))
"""`SYNCPOD_PATIENCE=10` waits ten times as long."""
PATIENCE: Final = 60.0 * TIMES
"""Seconds."""
