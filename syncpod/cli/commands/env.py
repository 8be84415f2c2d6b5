"""``syncpod env``: the environment with which ``temporal`` and ``tctl`` command this machine's node."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.options import StateDir


def env(
    state_dir: StateDir = "",
    workflow: Annotated[
        str,
        typer.Option(
            "--workflow",
            metavar="ID",
            help="Sign for this workflow, even if the command names another.",
            show_default="the one that the command names",
        ),
    ] = "",
) -> None:
    """Print the environment for `temporal` and `tctl`.

    `eval "$(syncpod env)"` sets it. With it, both reach this machine's server, and the node's worker signs what they
    send: signals, updates and starts in plain JSON, for the workflow that the command names. Its token is worth as much
    as the key in the state directory, and is valid until the worker ends. With `up --encrypt`, the last line, a
    comment, is the codec endpoint to set in the Temporal UI: it decrypts there, and signs nothing. If the worker has
    ended and the server runs, the command prints only the server's address: lists and histories can be read, and
    nothing is signed or decrypted until the worker runs again.
    """
    from syncpod.cli.actions.env import print_environment

    print_environment(state_dir, workflow)
