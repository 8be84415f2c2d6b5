"""``syncpod history``: what was decided and done for a pod, and why."""

from __future__ import annotations

from syncpod.cli.input.arguments import pod_name, require_json
from syncpod.cli.input.options import Namespace, NoHeaders, OnlyJson, PodNames


def history(
    what: PodNames = None,
    namespace: Namespace = "default",
    output: OnlyJson = "",
    no_headers: NoHeaders = False,
) -> None:
    """Show each decision, step, signal and exit of a pod.

    A step is listed at the time when it began, before its effects. Pods that have ended are shown too. Once Temporal
    has removed a pod's history, the last life of the pod is shown from this machine's journal.
    """
    name = pod_name(what or [])
    require_json(output)
    from syncpod.cli.actions.history import print_history, read_history

    found = read_history(namespace, name)
    if found is None:
        from syncpod.cli.actions.journaled_history import journaled_history

        found = journaled_history(namespace, name)
    elif found.is_of_orphan:
        from syncpod.cli.actions.workflow_ends import with_end_of_workflow

        found = with_end_of_workflow(found, namespace, name)
    print_history(found, namespace, name, output, headers=not no_headers)
