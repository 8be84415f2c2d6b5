"""Starts the Temporal server of a node that takes a kubelet's place, and becomes the node's worker."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from syncpod.cli.kubelet.doors import ALWAYS, PODS_API, link_sockets
from syncpod.cli.local_processes import start_server
from syncpod.cli.machine.checked_node import require_valid
from syncpod.cli.machine.cluster_join import joined
from syncpod.cli.machine.processes import run_in_place
from syncpod.cli.machine.settings import kept_settings, settings
from syncpod.cli.machine.worker_process import worker_program
from syncpod.kernel.early_listening import hand_over
from syncpod.settings import table
from syncpod.settings.directories import STATE_DIR
from syncpod.settings.kept import beneath

if TYPE_CHECKING:
    from syncpod.cli.kubelet.node_start import NodeStart


def become_worker(start: NodeStart) -> NoReturn:
    """Start the Temporal server if it does not run, and replace this process by the worker. Raises Failure.

    A node that has no certificate of its cluster yet joins it first.
    """
    variables = start.variables
    state_dir = variables[STATE_DIR]
    Path(state_dir).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.environ.update({name: text for name, text in variables.items() if text})
    here = settings(state_dir=state_dir)
    require_valid(here)
    sockets = (*ALWAYS, PODS_API) if variables.get(table.PODS_API.variable) == "true" else ALWAYS
    for warning in link_sockets(Path(state_dir).parent, Path(state_dir), sockets):
        sys.stderr.write(f"syncpod-kubelet: warning: {warning}\n")
    if start.bootstrap:
        joined(here, Path(start.bootstrap), at=here.kubeconfig)
    server = start_server(here)
    otherwise = beneath(kept_settings(Path(state_dir)).variables, os.environ)
    arguments = table.as_arguments(variables, otherwise)
    command = [sys.executable, str(worker_program()), "--state-dir", state_dir, *arguments]
    if server.own is not None:
        command.append("--adopt-cluster")  # the server's database may be new, but the node is the same
    command += ["--log-level", start.log_level]
    address = {"TEMPORAL_ADDRESS": server.config["target_host"]}
    run_in_place(command, {**os.environ, **address, **hand_over()})
