"""Replaces this process by ``worker.py``, with the address of the state directory's Temporal server."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from syncpod.cli.machine.processes import run_in_place
from syncpod.cli.machine.worker_process import worker_program
from syncpod.cli.temporal.session import connection


def become_worker(arguments: Sequence[str]) -> NoReturn:
    """Run the worker in place of this process, with these arguments.

    Raises Failure if its program is missing, and BadInput if it cannot be run or there is no Temporal server.
    """
    program = worker_program()
    run_in_place([sys.executable, str(program), *arguments], _environment(arguments))


def _environment(arguments: Sequence[str]) -> dict[str, str]:
    """Return our environment, with the state directory's Temporal server added if none is named.

    Raises BadInput if there is no server.
    """
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
