"""Takes this machine's node out of its fleet: the node forgets its invitation, and keeps the fleet's pods."""

from __future__ import annotations

from pathlib import Path

from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.kernel.os_errors import why_of
from syncpod.settings.membership import forget_membership, read_membership
from syncpod.settings.values import SettingsInvalid


def leave_fleet(state_dir: Path) -> None:
    """Remove the node's invitation, also one that cannot be read; print the fleet, or a note if there was none.

    Raises Failure if the invitation cannot be removed.
    """
    try:
        before = read_membership(state_dir)
    except SettingsInvalid as wrong:
        remark(f"the invitation is removed, though it could not be read: {wrong}")
        before = None
    else:
        if before is None:
            remark("this node belongs to no fleet")
    try:
        forget_membership(state_dir)
    except OSError as error:
        raise Failure(f"{state_dir}: {why_of(error)}") from None
    if before is not None:
        say(f"node/{before.node} left fleet {before.fleet}")
