"""One node's worker: the pods' workflows, the steps that act on its runtime, and the node agent.

``python worker.py`` serves this machine, with any Temporal server that the ``temporal`` CLI would find (environment and
temporal.toml). It prints one line on standard output when it serves, logs to standard error, and ends at SIGTERM or
SIGINT; the pods run on. Exit codes: 0 asked to end, 1 a defect, 2 cannot serve, with one sentence that says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from activities.fleet_node import fleet_answers, remote_command_answer
from activities.registry import node_steps, questions, steps
from syncpod.cri.client import CriClient
from syncpod.messages.identity import node_task_queue
from syncpod.worker.process import end_process, run
from syncpod.worker.served import ServedByNode
from syncpod.worker.serving import CriOf
from workflows.node.workflow import NodeWorkflow
from workflows.pod.workflow import PodWorkflow

SERVED = ServedByNode(
    task_queue=node_task_queue,  # node/<name of the node>
    workflows=(PodWorkflow, NodeWorkflow),
    activities=lambda node, pod_orders: (
        *steps(node),  # steps of a pod's workflow: pull_image, create_sandbox, start_container, kill_pod, ...
        *questions(node),  # queries of clients, without a workflow: would the node admit this pod?
        *node_steps(pod_orders),  # steps of the node's workflow: begin, change and end the workflows of its pods
    ),
    # On the fleet's server, and only for a node that has joined it: fleet-node/<name of the node>
    fleet_activities=lambda member: (*fleet_answers(member), remote_command_answer(member.run)),
)


def main(arguments: Sequence[str] | None = None, cri_of: CriOf = CriClient) -> int:
    """Serve until asked to end; return the exit code. `cri_of` makes the client of the runtime at a socket."""
    return run(SERVED, arguments, cri_of)


if __name__ == "__main__":
    end_process(main())
