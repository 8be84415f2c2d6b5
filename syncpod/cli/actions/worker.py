"""The work of ``syncpod worker``: replaces this process by ``worker.py``, which can also be run directly."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from syncpod.cli.temporal.session import connection


def environment_of(arguments: Sequence[str]) -> dict[str, str]:
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
