"""Changes the CPU and memory of a running pod in place, or shows the steps of such a change."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.client import WorkflowQueryFailedError

from syncpod.api.views.durations import short_duration
from syncpod.cli.actions.plan import change_of
from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.resize_request import (
    ResizeRequest,
    as_document,
    hindrance,
    is_done,
    is_hopeless,
    resize_of,
    subjects,
)
from syncpod.cli.temporal import session
from syncpod.cli.temporal.operator_signals import pod_to_signal
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pod_waits import until_seen
from syncpod.cli.temporal.updates import send_update
from syncpod.cli.view.plans import print_plans

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.fetched import FetchedPod
    from syncpod.pod import Pod, PodResize


def resize_pod(namespace: str, name: str, request: ResizeRequest, *, wait: bool, patience: timedelta | None) -> None:
    """Resize a pod, and print what is resized; with `wait`, return when it is done.

    Raises BadInput for a resize that is refused, and Failure, also if a wait ends without the resize.
    """

    async def work(client: Client) -> None:
        pod = await pod_to_signal(client, namespace, name)
        asked = resize_of(pod, request)
        answer = await send_update(client, pod, "resize", as_document(asked))
        changed = answer.get("generation") != pod.metadata.generation
        say(f"pod/{name} {f'resizing ({subjects(asked)})' if changed else 'unchanged'}")
        if wait:
            await _until_done(client, pod, patience)
            say(f"pod/{name} resized")

    session.run(work)


def show_plan(namespace: str, name: str, request: ResizeRequest) -> None:
    """Print the steps of a resize, without doing them. Raises BadInput for a resize that is refused, and Failure."""

    async def work(client: Client) -> None:
        pod = await pod_to_signal(client, namespace, name)
        await _show_plan(client, pod, resize_of(pod, request))

    session.run(work)


async def _show_plan(client: Client, pod: Pod, asked: PodResize) -> None:
    meta = pod.metadata
    try:
        found = await TemporalPods(client).answer(
            (meta.namespace, meta.name), "plan", as_document(asked), "resize", result_type=dict
        )
    except WorkflowQueryFailedError as failed:
        # The query fails if the workflow's run cannot be replayed.
        why = failed.message.strip().splitlines() or ["it does not say why"]
        raise Failure(f'the plan of pod "{meta.name}" failed on its node: {why[0]}') from None
    if found.get("error"):
        raise BadInput(f"pod {meta.name}: {found['error']}")
    print_plans([{"pod": meta.name, **found, "change": change_of(found), "resources": bool(found["steps"])}])


async def _until_done(client: Client, pod: Pod, patience: timedelta | None) -> None:
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
