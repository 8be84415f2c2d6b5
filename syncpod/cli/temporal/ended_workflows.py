"""How the workflows of pods that run without one have ended, by the Temporal server."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.service import RPCError

from syncpod.cli.failure import Failure
from syncpod.cli.temporal import session
from syncpod.messages.identity import pod_workflow_id
from syncpod.temporal.run_history import how_ended

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.temporal.run_history import Ended

_RPC: Final = timedelta(seconds=5)


def end_of(namespace: str, name: str) -> Ended | None:
    """Return how the last workflow of a pod's name has ended; None if it has not, or the server does not say."""

    async def work(client: Client) -> Ended | None:
        try:
            return await how_ended(client, pod_workflow_id(namespace, name), timeout=_RPC)
        except RPCError:
            return None

    try:
        return session.run(work)
    except Failure:
        return None
