"""A fleet's worker: runs the workflows of the fleet's nodes, workloads and objects, on the fleet's own cluster.

``python fleet_worker.py`` serves the Temporal server that the ``temporal`` CLI would find (environment and
temporal.toml). Any number of workers may run, on any machines: all state is in the server. It prints one line on
standard output when it serves, logs to standard error, and ends at SIGTERM or SIGINT; the nodes keep running. Exit
codes: 0 asked to end, 1 a defect, 2 cannot serve, with one sentence that says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from activities.fleet_objects import object_steps
from activities.fleet_workload import fleet_steps
from syncpod.messages.fleet import FLEET_QUEUE
from syncpod.worker.fleet import run
from syncpod.worker.process import end_process
from syncpod.worker.served import ServedByFleet
from workflows.fleet.node import FleetNodeWorkflow
from workflows.fleet.object import FleetObjectWorkflow
from workflows.fleet.remote_command import RemoteCommandWorkflow
from workflows.fleet.workload import WorkloadWorkflow

SERVED = ServedByFleet(
    task_queue=FLEET_QUEUE,
    workflows=(FleetNodeWorkflow, FleetObjectWorkflow, WorkloadWorkflow, RemoteCommandWorkflow),
    activities=lambda client, sealing: (*fleet_steps(client), *object_steps(client, sealing)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until asked to end; return the exit code."""
    return run(SERVED, arguments)


if __name__ == "__main__":
    end_process(main())
