"""The newest list of pods that a fleet has given its node, as it is kept on the node's disk."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.messages.fleet import Intent

FILE_NAME: Final = "fleet-intent.json"


def read_intent(state_dir: Path) -> Intent:
    """Return the newest list; an empty one of generation 0 if there is none. Blocks. Raises OSError, ValueError."""
    try:
        said = (state_dir / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return Intent()
    return Intent.model_validate_json(said)


def keep_intent(state_dir: Path, intent: Intent) -> None:
    """Keep a list. Atomic, and readable by its owner only: pods may have passwords in their env. Raises OSError."""
    replace_file(state_dir / FILE_NAME, intent.model_dump_json(by_alias=True), durable=True)
