"""``syncpod node``: the state of this machine's node."""

from __future__ import annotations


def node() -> None:
    """Show this machine's node: worker, conditions, housekeeping.

    It also lists pods that run without a workflow, and remains of deleted pods that the node cannot remove.
    The conditions are as in `kubectl describe node`. A pod without a workflow is killed only if the Temporal server's
    own records show that it should not run. Otherwise it keeps running, and is listed here with the reason: `syncpod
    adopt` starts a workflow for it, `syncpod prune` ends it. If the oom_score_adj of worker, server or embedded runtime
    may not be lowered here, the kernel would kill them before Guaranteed pods: then their values are shown.
    """
    from syncpod.cli.actions.node import print_report, print_worker, read_own_node

    own = read_own_node()
    print_worker(own)
    if own.serves:
        print_report(own)
    elif own.report is not None:
        from syncpod.cli.actions.unserved_node import print_last_report

        print_last_report(own.report)
