"""``syncpod fleet serve``: replaces itself by ``fleet_worker.py``, which can also be run directly."""

from __future__ import annotations

import os
import sys

from syncpod.cli.input.options import StateDir


def serve(state_dir: StateDir = "") -> None:
    """Run the fleet's worker until Ctrl-C, on the Temporal server that the environment names, or on your own.

    Any number of workers may run, on any machines that have the fleet's keys. The fleet's state is in the server.
    """
    from syncpod.cli.machine.processes import run_in_place
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.worker_process import fleet_worker_program
    from syncpod.cli.temporal.session import connection

    address = connection(state_dir, begun_by="syncpod server")["target_host"]
    directory = settings(state_dir=state_dir).state_dir
    command = [sys.executable, str(fleet_worker_program()), "--state-dir", str(directory)]
    run_in_place(command, {**os.environ, "TEMPORAL_ADDRESS": address})
