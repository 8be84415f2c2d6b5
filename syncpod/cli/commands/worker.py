"""``syncpod worker``: replaces this process by ``worker.py``, which can also be run directly."""

from __future__ import annotations

from typing import Any

import typer

CONTEXT: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""All flags are worker.py's own, ``--help`` included."""


def worker(context: typer.Context) -> None:
    """Serve this machine as a node until Ctrl-C."""
    from syncpod.cli.actions.worker import become_worker

    become_worker(context.args)
