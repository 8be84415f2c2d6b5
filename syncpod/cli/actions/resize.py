"""The work of ``syncpod resize``: change the CPU and memory of a running pod in place."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.client import WorkflowQueryFailedError

from syncpod.api.views.durations import short_duration
from syncpod.cli.actions.plan import change_of
from syncpod.cli.commands.plan import print_plans
from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.resize_request import as_document, hindrance, is_done, is_hopeless, subjects
from syncpod.cli.temporal.pod_reads import ask_pod
from syncpod.cli.temporal.pod_waits import until_seen
from syncpod.cli.temporal.updates import send_update
from syncpod.messages.identity import pod_workflow_id

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.fetched import FetchedPod
    from syncpod.pod import Pod, PodResize


async def request_resize(client: Client, pod: Pod, asked: PodResize) -> None:
    """Request the resize, and print what is resized. Raises BadInput, Failure."""
    answer = await send_update(client, pod, "resize", as_document(asked))
    changed = answer.get("generation") != pod.metadata.generation
    say(f"pod/{pod.metadata.name} {f'resizing ({subjects(asked)})' if changed else 'unchanged'}")


async def show_plan(client: Client, pod: Pod, asked: PodResize) -> None:
    """Print the steps of a resize, without doing them. Raises Failure."""
    meta = pod.metadata
    workflow_id = pod_workflow_id(meta.namespace, meta.name)
    try:
        found = await ask_pod(client, workflow_id, "plan", as_document(asked), "resize", result_type=dict)
    except WorkflowQueryFailedError as failed:
        # The query fails if the workflow's run cannot be replayed.
        why = failed.message.strip().splitlines() or ["it does not say why"]
        raise Failure(f'the plan of pod "{meta.name}" failed on its node: {why[0]}') from None
    if found.get("error"):
        raise BadInput(f"pod {meta.name}: {found['error']}")
    print_plans([{"pod": meta.name, **found, "change": change_of(found), "resources": bool(found["steps"])}])


async def until_done(client: Client, pod: Pod, patience: timedelta | None) -> None:
    """Wait until the resize is done. Raises Failure on a timeout, and at once if it is Infeasible."""
    meta = pod.metadata

    def is_over(fetched: FetchedPod | None) -> bool:
        if fetched is None or not fetched.current:
            return fetched is None
        other = fetched.pod.metadata.uid != meta.uid
        return other or is_done(fetched.pod) or is_hopeless(fetched.pod)

    deadline = None if patience is None else asyncio.get_running_loop().time() + patience.total_seconds()
    fetched, came = await until_seen(client, meta.namespace, meta.name, is_over, deadline)
    if fetched is None or (fetched.current and fetched.pod.metadata.uid != meta.uid):
        raise Failure(f'pod "{meta.name}" has been deleted meanwhile')
    if came and not is_hopeless(fetched.pod):
        return
    why = hindrance(fetched.pod) if fetched.current else fetched.silence
    waited = "" if came or patience is None else f" after {short_duration(patience)}"
    raise Failure(f'pod "{meta.name}" is not resized{waited}: {why}')
