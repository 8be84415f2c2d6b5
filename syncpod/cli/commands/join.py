"""``syncpod join`` and ``syncpod leave``: this machine's node, and the fleet that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir
from syncpod.kernel.os_errors import sentence_of, why_of
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    pass


def join(
    invitation: Annotated[str, typer.Argument(metavar="FILE|-", hidden=True, show_default=False)] = "",
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="ADDRESS:PORT",
            help="Where the fleet's machine can reach this node directly; `none` = nowhere. A port alone means the "
            "loopback address.",
            show_default="as before, at first none",
        ),
    ] = "",
    state_dir: StateDir = "",
) -> None:
    """Join a fleet with this machine's node.

    FILE is an invitation from `syncpod fleet invite`, and `-` is standard input. A running worker notices within
    seconds; after that the file can be removed. The node keeps running its own pods. It runs the fleet's pods even
    while the fleet cannot be reached. Pods of an earlier fleet end, since the new fleet's list does not have them.

    With --listen, the node also accepts TLS connections from the fleet's machine, and from no other, for `fleet exec
    -it`, `attach` and `port-forward`. Give an address that the fleet's machine can reach; 0.0.0.0 stands for all
    addresses of the node. A node that already belongs to a fleet can change the address without FILE.
    """
    from syncpod.cli.actions.join import (
        given_invitation,
        listen_address,
        node_settings,
        present_invitation,
        require_this_nodes,
        require_usable,
        say_joined,
    )
    from syncpod.cli.machine.state_directory import prepare
    from syncpod.settings.membership import keep_listening, keep_membership, read_listening
    from syncpod.settings.worker_record import serving

    here = node_settings(state_dir)
    if not invitation and not listen:
        raise BadInput("name the file that `syncpod fleet invite` has written, or where to --listen")
    try:
        invited = given_invitation(invitation) if invitation else None
        before = present_invitation(here.state_dir, replaced=invited is not None)
        listened = read_listening(here.state_dir)
    except (SettingsInvalid, OSError) as wrong:
        raise BadInput(sentence_of(wrong)) from None
    invited = invited or before
    if invited is None:
        raise BadInput("--listen: this node belongs to no fleet yet: name the file of its invitation too")
    worker = serving(here.state_dir)
    node = worker.node if worker is not None else here.node
    require_this_nodes(invitation, invited, node, before)
    require_usable(invitation, invited)
    where = listen_address(listen, listened)
    prepare(here.state_dir)
    try:
        keep_listening(here.state_dir, where)
        keep_membership(here.state_dir, invited)
    except OSError as error:
        raise Failure(f"the invitation cannot be kept in {here.state_dir}: {why_of(error)}") from None
    if invitation:
        say_joined(here.state_dir, invited)
    if where or listened:
        say(f"node/{node} listens at {where} for the fleet's machine" if where else f"node/{node} does not listen")
    if worker is None:
        remark("no worker serves this node yet: `syncpod up` starts one")


def leave(state_dir: StateDir = "") -> None:
    """Leave the fleet that this machine's node belongs to.

    The fleet's pods keep running. They end when the node joins another fleet, which has its own list.
    """
    from syncpod.cli.machine.settings import settings
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
        raise Failure(f"{here.state_dir}: {why_of(error)}") from None
    if before is not None:
        say(f"node/{before.node} left fleet {before.fleet}")
