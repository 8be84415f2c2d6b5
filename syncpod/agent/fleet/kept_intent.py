"""Keeps the newest list of pods from the node's fleet on the node's disk."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file
from syncpod.messages.fleet import Intent

FILE_NAME: Final = "fleet-intent.json"
BROKEN_NAME: Final = f"{FILE_NAME}.broken"
"""The name to which a list that cannot be read is renamed."""

log = logging.getLogger(__name__)


def read_intent(state_dir: Path) -> Intent:
    """Return the newest list; an empty one of generation 0 if there is none. Blocks. Raises OSError.

    A list that cannot be read is renamed, and treated as missing: the fleet then sends its list again.
    """
    path = state_dir / FILE_NAME
    try:
        return Intent.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Intent()
    except ValueError:
        path.replace(state_dir / BROKEN_NAME)
        log.warning("%s: could not be read and is %s now: the fleet sends its list again", path, BROKEN_NAME)
        return Intent()


def keep_intent(state_dir: Path, intent: Intent) -> None:
    """Write a list atomically, readable by its owner only: pods may have passwords in their env. Raises OSError."""
    replace_file(state_dir / FILE_NAME, intent.model_dump_json(by_alias=True), durable=True)
