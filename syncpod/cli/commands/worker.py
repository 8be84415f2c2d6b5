"""``syncpod worker``: replaces this process by ``worker.py``, which can also be run directly."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

CONTEXT: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""All flags are worker.py's own, ``--help`` included."""


def worker(context: typer.Context) -> None:
    """Serve this machine as a node until Ctrl-C."""
    from syncpod.cli.machine.processes import run_in_place
    from syncpod.cli.machine.worker_process import worker_program

    program = worker_program()
    run_in_place([sys.executable, str(program), *context.args], _environment(context.args))


def _environment(arguments: Sequence[str]) -> dict[str, str]:
    """Return our environment, with the state directory's Temporal server added if none is named.

    Raises BadInput if there is no server.
    """
    from syncpod.cli.temporal.session import connection

    flags = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    flags.add_argument("--state-dir", default="")
    flags.add_argument("-h", "--help", action="store_true")
    try:
        asked, _ = flags.parse_known_args(arguments)
    except argparse.ArgumentError:
        return dict(os.environ)  # the worker itself reports what is wrong with its flags
    if asked.help:
        return dict(os.environ)
    return {**os.environ, "TEMPORAL_ADDRESS": connection(asked.state_dir)["target_host"]}
