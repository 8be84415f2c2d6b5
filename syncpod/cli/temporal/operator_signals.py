"""Sends an operator's signals to a pod, and waits for the pod's reaction.

Temporal keeps a signal even while the pod's node is away. The pod's own history shows whether it was accepted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.api.views.durations import short_duration
from syncpod.cli.failure import Failure
from syncpod.cli.fetched import FetchedPod
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.cli.temporal.pod_waits import Settled, is_ready, settled, state_of, until_seen
from syncpod.cli.temporal.pods import handle_of, not_found
from syncpod.journal.records import HistoryEntry
from syncpod.lifecycle.rejection import was_rejected
from syncpod.messages.command_table import Payload, SignalSpec
from syncpod.messages.queries import read_history
from syncpod.pod import Pod
from syncpod.pod.origin import is_readmitted, list_of

ACCEPT_SECONDS: Final = 5.0
"""How long a pod may take to accept or reject a signal."""
_POLL_SECONDS: Final = 0.1


async def pod_to_signal(client: Client, namespace: str, name: str) -> Pod:
    """Return a pod that can be signalled. Raises Failure if there is none, or it has ended or is being deleted."""
    pod = (await TemporalPods(client).required(namespace, name)).pod
    if pod.metadata.deletion_timestamp is not None:
        raise Failure(f'pod "{name}" is being deleted')
    if was_rejected(pod.status.phase, pod.status.message):
        raise Failure(f'pod "{name}" has not run: {pod.status.reason}: {pod.status.message}. {_how_to_go_on(pod)}')
    if pod.status.phase in ("Succeeded", "Failed"):
        raise Failure(f'pod "{name}" has ended: {pod.status.phase}')
    return pod


def _how_to_go_on(pod: Pod) -> str:
    """Return a sentence about how a pod that its node has rejected can run after all."""
    flag = "" if pod.metadata.namespace == "default" else f" -n {pod.metadata.namespace}"
    name = pod.metadata.name
    if is_readmitted(pod.metadata):
        return f"Its node is asked again by itself, and now with `syncpod retry{flag} {name}`"
    if list_of(pod.metadata):
        return "Its node is not asked again: what it belongs to in the fleet decides what follows"
    return f"Its node is not asked again: `syncpod delete{flag} pod {name}`, and then apply it anew"


async def signal(client: Client, pod: Pod, sent: SignalSpec[Payload], payload: Payload) -> None:
    """Send a signal to a pod, and return when the pod has accepted it.

    Raises Failure with the pod's reason if the pod rejects the signal. If the pod does not answer, Failure is raised
    too, but the server keeps the signal.
    """
    meta, name = pod.metadata, sent.name
    before = await records_of(client, pod, name)
    try:
        await handle_of(client, meta.namespace, meta.name).signal(name, payload)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise not_found(meta.name, meta.namespace) from None
        raise
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ACCEPT_SECONDS
    while before is not None and loop.time() < deadline:
        for record in (await records_of(client, pod, name) or Counter()) - before:
            if record.kind == "rejected":
                raise Failure(f'pod "{meta.name}": {record.reason.removeprefix(f"signal {name}: ")}')
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise Failure(f'pod "{meta.name}" does not answer; the request is kept until its node serves again')


async def records_of(client: Client, pod: Pod, name: str) -> Counter[HistoryEntry] | None:
    """Return the records of signals of this name in a pod's history; None if it does not answer now."""
    key = pod.metadata.namespace, pod.metadata.name
    try:
        answer: list[Any] = await TemporalPods(client).answer(key, "history", result_type=list)
    except (WorkflowQueryFailedError, RPCError):
        return None
    return Counter(one for one in read_history(answer) if one.subject == name and one.kind in ("signal", "rejected"))


async def until_up(client: Client, pod: Pod, patience: timedelta | None, seen: Callable[[Pod], bool]) -> str:
    """Wait until `seen` returns True for a pod that is Ready or has succeeded; return ``ready`` or ``succeeded``.

    Raises Failure if it fails or is deleted, and on a timeout.
    """
    meta = pod.metadata
    deadline = None if patience is None else asyncio.get_running_loop().time() + patience.total_seconds()

    def is_gone(fetched: FetchedPod | None) -> bool:
        return fetched is None or (fetched.current and fetched.pod.metadata.uid != meta.uid)

    def is_over(fetched: FetchedPod | None) -> bool:
        if fetched is None or is_gone(fetched):
            return True
        return settled(fetched) is not Settled.NOT_YET and (not is_ready(fetched.pod) or seen(fetched.pod))

    fetched, came = await until_seen(client, meta.namespace, meta.name, is_over, deadline)
    if is_gone(fetched):
        raise Failure(f'pod "{meta.name}" has been deleted meanwhile')
    state = settled(fetched)
    if came and state in (Settled.READY, Settled.SUCCEEDED):
        return state.value
    waited = "" if came or patience is None else f" after {short_duration(patience)}"
    raise Failure(f'pod "{meta.name}" is not ready{waited}: {state_of(fetched)}')
