"""The pods whose logs are to be read: by this machine's worker, or by the server.

A pod whose workflow does not answer is taken from this machine's own records, so that its logs can be read in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncpod.cli.console import remark
from syncpod.cli.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from temporalio.client import Client

    from syncpod.api.label_selector import Selector
    from syncpod.cli.fetched import FetchedPod
    from syncpod.pod import Pod
    from syncpod.translation.context import NodeContext

    LoggedPod = tuple[Pod, NodeContext | None]
    """A pod, and if its workflow does not answer, the node in whose files its logs are to be found."""


def read_of_pods(
    namespace: str,
    name: str,
    conditions: Selector,
    read: Callable[[Sequence[LoggedPod]], Coroutine[Any, Any, None]],
    *,
    follow: bool,
) -> None:
    """Give `read` the pod or the selected ones: by this machine's worker, or else by the server."""
    import asyncio

    from syncpod.cli.streams import interrupts

    if follow:
        interrupts.enable()
    if told := _told(namespace, name, conditions):
        asyncio.run(read([(pod, None) for pod in told]))
        return
    from syncpod.cli.temporal import session

    async def work(client: Client) -> None:
        await read(await _pods(client, namespace, name, conditions))

    session.run(work)


def _told(namespace: str, name: str, conditions: Selector) -> list[Pod]:
    """Return the pod or the selected ones by this machine's worker; none if the server has to be asked."""
    from syncpod.cli.machine.own_pods import told_pods

    told = told_pods(namespace, [name] if name else [])
    if not told:
        return []
    from syncpod.pod import Pod

    pods = [Pod.model_validate(each) for each in told]
    return [pod for pod in pods if name or conditions.matches(pod.metadata.labels)]


async def _pods(client: Client, namespace: str, name: str, conditions: Selector) -> list[LoggedPod]:
    """Return the named pod, or the selected ones, as `_found` does. Raises Failure."""
    import asyncio

    from syncpod.cli.machine.own_journal import missing
    from syncpod.cli.temporal.pods import list_pods, lone_pods, read_pod

    if name:
        named = await read_pod(client, namespace, name)
        fetched_pods = [named] if named is not None else await lone_pods(client, namespace, [name])
        if not fetched_pods:
            raise Failure(missing((client.service_client.config.target_host, client.namespace), namespace, name))
    else:
        fetched_pods = await list_pods(client, namespace, conditions)
    if not fetched_pods:
        remark(f"No resources found in {namespace} namespace.")
    return await asyncio.to_thread(_found, fetched_pods, skip=not name)


def _found(fetched_pods: Sequence[FetchedPod], *, skip: bool) -> list[LoggedPod]:
    """Return pods; each whose workflow does not answer comes with the node in whose files to look for its logs.

    Raises Failure for a pod that neither answers nor has a record on this machine; with `skip`, prints a note instead.
    Blocks.
    """
    found: list[LoggedPod] = []
    for fetched in fetched_pods:
        try:
            found.append((fetched.pod, None) if fetched.current else _noted(fetched))
        except Failure as failure:
            if not skip:
                raise
            remark(f"Note: {failure}")
    return found


def _noted(fetched: FetchedPod) -> tuple[Pod, NodeContext]:
    """Return this machine's record of a pod that does not answer, with a note. Raises Failure if there is none."""
    from syncpod.cli.fetched import silence
    from syncpod.cli.machine.kept_logs import noted_pod
    from syncpod.cli.strays.listing import this_node
    from syncpod.cli.temporal.pods import does_not_answer

    node = this_node()
    pod = noted_pod(node, *fetched.key, fetched.pod.metadata.uid)
    if pod is None:
        raise does_not_answer(fetched)
    remark(f"Note: {silence((fetched,))}; logs of pod {pod.metadata.name} are read from {node.log_dir}")
    return pod, node
