"""``syncpod resize``: change the CPU and memory of a running pod in place."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.api.views.durations import short_duration
from syncpod.cli.commands.plan import change_of, print_plans
from syncpod.cli.console import say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_name, read_timeout
from syncpod.cli.input.options import Namespace, PodNames, Timeout

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.fetched import FetchedPod
    from syncpod.pod import Pod, PodResize


Containers = Annotated[
    list[str] | None,
    typer.Option(
        "--container",
        "-c",
        metavar="NAME",
        help="The container; * matches anything. May be repeated.",
        show_default="every main container",
    ),
]
Limits = Annotated[
    str, typer.Option("--limits", metavar="cpu=…,memory=…", help="The most that it may use.", show_default=False)
]
Requests = Annotated[
    str, typer.Option("--requests", metavar="cpu=…,memory=…", help="The guaranteed amounts.", show_default=False)
]


def resize(
    what: PodNames = None,
    container: Containers = None,
    limits: Limits = "",
    requests: Requests = "",
    whole: Annotated[bool, typer.Option("--pod", help="Resize the pod as a whole, not its containers.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    namespace: Namespace = "default",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done.")] = False,
    timeout: Timeout = "5m",
) -> None:
    """Change the CPU and memory of a running pod in place.

    Other amounts stay as they are; a request or limit can be added or changed, but not removed. The pod's QoS class
    must not change: for a Guaranteed pod, change requests and limits alike. Containers keep running, unless their
    resizePolicy requires a restart. If the node has no room now, the resize is Deferred until there is room; if there
    can never be room, it is Infeasible. The pod's conditions PodResizePending and PodResizeInProgress show the
    progress.

    \b
    Examples:
      syncpod resize web --limits cpu=500m,memory=256Mi
      syncpod resize web -c app --requests cpu=200m --limits memory=1Gi --wait
      syncpod resize web --pod --limits cpu=2
      syncpod resize web --limits memory=128Mi --dry-run
    """  # fmt: skip  # noqa: D301
    from syncpod.cli.input.resize_request import parse_amounts, resize_of
    from syncpod.cli.temporal import session

    name = pod_name(what or [])
    wanted = parse_amounts(limits, "--limits"), parse_amounts(requests, "--requests")
    if not any(wanted):
        raise BadInput("say what is to change: --limits cpu=500m,memory=256Mi, or --requests, or both")
    if whole and container:
        raise BadInput("either --pod or --container: --pod resizes the pod as a whole")
    patience = read_timeout(timeout)

    async def work(client: Client) -> None:
        from syncpod.cli.temporal.operator_signals import pod_to_signal

        pod = await pod_to_signal(client, namespace, name)
        asked = resize_of(pod, container or [], *wanted, whole=whole)
        if dry_run:
            await _show_plan(client, pod, asked)
            return
        await _resize(client, pod, asked)
        if wait:
            await _until_done(client, pod, patience)
            say(f"pod/{name} resized")

    session.run(work)


async def _resize(client: Client, pod: Pod, asked: PodResize) -> None:
    """Request the resize, and print what is resized. Raises BadInput, Failure."""
    from syncpod.cli.input.resize_request import as_document, subjects
    from syncpod.cli.temporal.updates import send_update

    answer = await send_update(client, pod, "resize", as_document(asked))
    changed = answer.get("generation") != pod.metadata.generation
    say(f"pod/{pod.metadata.name} {f'resizing ({subjects(asked)})' if changed else 'unchanged'}")


async def _show_plan(client: Client, pod: Pod, asked: PodResize) -> None:
    from temporalio.client import WorkflowQueryFailedError

    from syncpod.cli.input.resize_request import as_document
    from syncpod.cli.temporal.pod_reads import ask_pod
    from syncpod.messages.identity import pod_workflow_id

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


async def _until_done(client: Client, pod: Pod, patience: timedelta | None) -> None:
    """Wait until the resize is done. Raises Failure on a timeout, and at once if it is Infeasible."""
    import asyncio

    from syncpod.cli.input.resize_request import hindrance, is_done, is_hopeless
    from syncpod.cli.temporal.pod_waits import until_seen

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
