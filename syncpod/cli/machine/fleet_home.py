"""The fleet that is commanded from a state directory: its authority and its keys.

Only `fleet up`, `fleet serve` and `fleet gate` create a fleet. Any other command fails if there is no fleet, or if its
keys are missing. With new keys, a command could read nothing, and the workflows that received it would be stuck.
"""

from __future__ import annotations

from pathlib import Path

from syncpod.cli.failure import BadInput
from syncpod.cli.machine.settings import settings
from syncpod.gate.authority import Fleet, IssuedToNode, has_fleet, now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.kernel.os_errors import sentence_of
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import DIRECTORY, read_signing_keys


def home_of_a_fleet(state_dir: str = "") -> Path:
    """Return the state directory. Raises BadInput if it lacks a fleet or the keys. Creates nothing. Blocks."""
    here = settings(state_dir=state_dir).state_dir
    directory = fleet_directory(here)
    try:
        if not has_fleet(directory):
            raise BadInput(
                f"no fleet is commanded from here, since there is no {directory}: run this on the fleet's machine, "
                "with its SYNCPOD_STATE_DIR if it has one; `syncpod fleet up` begins a new fleet"
            )
        keys = read_signing_keys(directory)
    except (SettingsInvalid, OSError) as wrong:
        raise BadInput(f"the fleet's keys cannot be read: {sentence_of(wrong)}") from None
    if keys is None:
        raise BadInput(
            f"{directory / DIRECTORY} has no keys of the fleet, or no keys that you may read: put them back from the "
            f"backup, or copy {directory} from the machine that commands the fleet, with all that is in it"
        )
    return here


def open_here(state_dir: str = "") -> Fleet:
    """Return the fleet that is commanded from this state directory. Raises BadInput if there is none. Blocks."""
    directory = fleet_directory(home_of_a_fleet(state_dir))
    try:
        return open_fleet(directory, now())
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    except OSError as error:
        raise BadInput(f"fleet directory {directory}: {error.strerror}") from None


def issued_by(fleet: Fleet) -> list[IssuedToNode]:
    """Return the certificates that a fleet has issued. Blocks. Raises BadInput."""
    try:
        return fleet.issued()
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
