"""``syncpod down``: delete the pods, and end what ``up`` has started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.options import Node, StateDir
from syncpod.settings.variables import MEMORY_DIR

if TYPE_CHECKING:
    pass


def down(
    state_dir: StateDir = "",
    node: Node = "",
    keep_pods: Annotated[bool, typer.Option("--keep-pods", help="Leave the pods running for the next `up`.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also remove the state directory: database, logs, Secrets, everything.")
    ] = False,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="How long the pods may take to end.",
            show_default="their longest grace period and 30s",
        ),
    ] = "0",
) -> None:
    """Delete this node's pods, and end what `up` started.

    The pods are stopped with their own grace periods. Processes that `up` has not started are left alone.
    """
    from syncpod.cli.machine import purge as purging
    from syncpod.cli.machine.ending import end_all, end_guard
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.state_directory import memory_directory_of, recorded_worker
    from syncpod.cli.machine.units_of_node import require_not_installed

    patience = read_timeout(timeout)
    here = settings(node=node, state_dir=state_dir)
    directory = here.state_dir
    memory = memory_directory_of(here, is_named=bool(os.environ.get(MEMORY_DIR)))
    before = recorded_worker(directory)
    logs = here.log_dir if before is None else Path(before.log_dir)
    if keep_pods and purge:
        raise BadInput("either --keep-pods or --purge: pods cannot keep running without their state")
    if not directory.is_dir():
        remark(f"Nothing to end: {directory} does not exist")
        return
    require_not_installed(directory)
    from syncpod.cli.actions.down import delete_pods, forget_processes, what_others_run

    others = what_others_run(directory)
    if purge:
        purging.require_ours(directory)
        if others:
            raise Failure(f"{directory} is in use by what `syncpod up` has not started: {'; '.join(others)}")
    if not keep_pods:
        delete_pods(here, patience, everything=purge)
    ended = end_all(directory) + end_guard(directory, here.node)
    if not keep_pods:
        forget_processes(directory, settings_too=not purge)  # a purge that fails is repeated with the same settings
    _say_what_is_left(directory, others, ended=bool(ended), keep_pods=keep_pods)
    if purge:
        purging.purge_cgroups(here)  # first: once the directory has gone, this cannot be repeated
        purging.purge(directory, memory, logs)
        say(f"{directory} removed")


def _say_what_is_left(directory: Path, others: Sequence[str], *, ended: bool, keep_pods: bool) -> None:
    """Print which processes keep running, and a sentence if nothing was ended."""
    if not ended:
        word = "ended" if others else "to end"
        remark(f"Nothing {word}: nothing that `syncpod up` has started runs in {directory}")
    for what in others:
        remark(f"Note: {what} was not started by `syncpod up`; it keeps running until it is ended where it was started")
    if ended and keep_pods:
        say(f"the pods keep running; `{program()} up` serves them again")
