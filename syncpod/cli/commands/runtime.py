"""``syncpod runtime`` and ``syncpod load``: run the embedded runtime in the foreground, and load images into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import StateDir
from syncpod.cli.machine.settings import settings


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
    keep running when the runtime ends, and it finds them again at its next start.
    """
    path = Path(socket).expanduser() if socket else None
    if path is not None and not path.is_absolute():
        raise BadInput(f"--socket: {socket!r} must be an absolute path")
    directory = settings(state_dir=state_dir).state_dir

    from syncpod.cli.machine import runtime_process

    runtime_process.become(directory, path, simulated=simulate, environ=os.environ)


def load(
    files: Annotated[list[str], typer.Argument(metavar="FILE", hidden=True, show_default=False)],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name for a file's only image.")] = "",
    state_dir: StateDir = "",
) -> None:
    """Load images from files into the embedded runtime.

    A container of a loaded image has the image's files as its root directory, and the image's entry point, variables,
    user, working directory and stop signal. Without root or user namespaces, such a container is refused. The name of
    an image that was only pulled stands for this machine's own programs.

    A file is an OCI layout (a directory, or a tar of one), or what `docker save` and `podman save` write; each digest
    in it is checked. The runtime need not be running. Nothing is loaded into containerd or CRI-O: use `ctr -n k8s.io
    images import` or `podman load` for those.
    """
    for file in files:
        _require_readable(file)
    directory = settings(state_dir=state_dir).state_dir

    from syncpod.cli.machine import runtime_process

    runtime_process.load(directory, files, name, environ=os.environ)


def _require_readable(file: str) -> None:
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))  # also opens a directory
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
