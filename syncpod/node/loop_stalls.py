"""The worker's report of a stalled event loop. It is on disk, because a stalled loop answers no request."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from syncpod.kernel.atomic_file import replace_file

_NAME: Final = "loop-stall.json"


class LoopStall(BaseModel):
    """The newest stall of a worker's event loop."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    since: datetime
    """When the loop last ran."""
    seconds: float
    """Seconds for which the loop has been stalled, or was stalled if the stall is `over`."""
    doing: Literal["computes", "waits"] = "waits"
    """`computes` if the loop's thread uses a CPU, `waits` if it is blocked in a call."""
    stack: tuple[str, ...] = ()
    """The position of the loop's thread, outermost call first: ``file:line function``. The entries name code, and show
    no values."""
    over: bool = False


def write_loop_stall(state_dir: Path, stall: LoopStall) -> None:
    """Replace the report atomically; mode 0600. Blocks. Raises OSError."""
    replace_file(state_dir / _NAME, stall.model_dump_json(indent=1) + "\n", durable=False)


def read_loop_stall(state_dir: Path) -> LoopStall | None:
    """Return the newest stall; None if no readable one is reported. Blocks."""
    try:
        return LoopStall.model_validate_json((state_dir / _NAME).read_bytes())
    except (OSError, ValidationError):
        return None


def forget_loop_stall(state_dir: Path) -> None:
    """Remove the report of an earlier worker. Blocks. Raises OSError."""
    (state_dir / _NAME).unlink(missing_ok=True)
