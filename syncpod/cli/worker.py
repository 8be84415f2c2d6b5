"""``syncpod worker``: becomes ``worker.py``, which is runnable by itself as well."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import typer

import syncpod
from syncpod.cli.failure import Failure

CONTEXT: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Every flag is worker.py's own, ``--help`` too."""


def worker(context: typer.Context) -> None:
    """Serve this machine as a node until Ctrl-C."""
    program = worker_program()
    os.execv(sys.executable, [sys.executable, str(program), *context.args])


def worker_program() -> Path:
    """Return the path of worker.py, beside the package in a checkout and in an installation alike."""
    program = Path(syncpod.__file__).resolve().parent.parent / "worker.py"
    if not program.is_file():
        raise Failure(f"{program} is not there: install syncpod anew")
    return program
