"""``syncpod join`` and ``syncpod leave``: this machine's node, and the fleet that it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir


def join(
    invitation: Annotated[str, typer.Argument(metavar="FILE", hidden=True, show_default=False)],
    state_dir: StateDir = "",
) -> None:
    """Join a fleet with this machine's node.

    FILE is an invitation from `syncpod fleet invite`. A running worker notices within seconds; after that the file can
    be removed. The node keeps running its own pods. It runs the fleet's pods even while the fleet cannot be reached.
    """
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.state_directory import prepare
    from syncpod.cli.machine.worker_process import local_node, serving
    from syncpod.settings.errors import SettingsInvalid
    from syncpod.settings.invitation import read_invitation
    from syncpod.settings.membership import keep_membership, read_membership

    here = settings(state_dir=state_dir)
    try:
        invited = read_invitation(Path(invitation))
        before = read_membership(here.state_dir)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    worker = serving(here.state_dir)
    node = worker.node if worker is not None else local_node("")
    if invited.node != node:
        raise BadInput(f"{invitation}: node: is {invited.node}, but this node is {node}")
    if before is not None and before.fleet != invited.fleet:
        raise BadInput(f"node {node} belongs to fleet {before.fleet}: `syncpod leave` first")
    prepare(here.state_dir)
    try:
        keep_membership(here.state_dir, invited)
    except OSError as error:
        raise Failure(f"the invitation cannot be kept in {here.state_dir}: {error.strerror}") from None
    say(f"node/{node} joined fleet {invited.fleet} at {invited.address}")
    if worker is None:
        remark("no worker serves this node yet: `syncpod up` starts one")


def leave(state_dir: StateDir = "") -> None:
    """Leave the fleet that this machine's node belongs to.

    The fleet's pods keep running. They end when the node joins another fleet, which has its own list.
    """
    from syncpod.cli.machine.settings import settings
    from syncpod.settings.errors import SettingsInvalid
    from syncpod.settings.membership import forget_membership, read_membership

    here = settings(state_dir=state_dir)
    try:
        before = read_membership(here.state_dir)
    except SettingsInvalid as wrong:
        remark(f"the invitation is removed, though it could not be read: {wrong}")
        before = None
    else:
        if before is None:
            remark("this node belongs to no fleet")
    try:
        forget_membership(here.state_dir)
    except OSError as error:
        raise Failure(f"{here.state_dir}: {error.strerror}") from None
    if before is not None:
        say(f"node/{before.node} left fleet {before.fleet}")
