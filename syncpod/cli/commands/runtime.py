"""``syncpod runtime``: the embedded runtime in the foreground."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import StateDir


def runtime(
    state_dir: StateDir = "",
    socket: Annotated[
        str,
        typer.Option(
            "--socket", metavar="PATH", help="The socket that it listens on.", show_default="runtime/cri.sock there"
        ),
    ] = "",
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Containers are timers that obey their pod's annotations.")
    ] = False,
) -> None:
    """Run the embedded runtime until Ctrl-C.

    It speaks CRI v1, as containerd does. Its containers are plain processes of this machine, without isolation. They
    keep running when it ends, and it finds them again.
    """
    from syncpod.cli.machine import runtime_process
    from syncpod.cli.machine.settings import settings

    path = Path(socket).expanduser() if socket else None
    if path is not None and not path.is_absolute():
        raise BadInput(f"--socket: {socket!r} must be an absolute path")
    directory = settings(state_dir=state_dir).state_dir
    runtime_process.become(directory, path, simulated=simulate, environ=os.environ)
