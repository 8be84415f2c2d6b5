"""Checks whether the server behind a gate holds the gate's own fleet. The gate may serve before its server does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import grpc
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse

from syncpod.gate.calls import SERVICE
from syncpod.messages.held_fleet import HELD_QUERY, LOOKED_AT, held_fleet, holds_another

METHOD: Final = f"/{SERVICE}/ListWorkflowExecutions"


class Ownership:
    """Checks whether the server holds the gate's own fleet, until the answer is yes."""

    def __init__(self, fleet: str, namespace: str, call: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        """`call` makes a call to the server, and raises AioRpcError."""
        self._fleet, self._namespace, self._call = fleet, namespace, call
        self._is_known = False

    async def why_not(self) -> str:
        """Return the sentence that refuses a server with another fleet; "" if the server holds the gate's own, or none.

        A server that cannot list workflows now counts as the gate's own until the next check.
        """
        if self._is_known:
            return ""
        request = ListWorkflowExecutionsRequest(namespace=self._namespace, page_size=LOOKED_AT, query=HELD_QUERY)
        try:
            answer = ListWorkflowExecutionsResponse.FromString(await self._call(METHOD, request.SerializeToString()))
        except grpc.aio.AioRpcError:
            return ""
        said = (dict(one.metadata) for each in answer.executions for one in each.memo.fields.values())
        held = held_fleet(self._fleet, said)
        self._is_known = held == self._fleet
        return "" if self._is_known or not held else holds_another(self._namespace, held, self._fleet)

    def forget(self) -> None:
        """Check again the next time: the server was away, and another one may be in its place."""
        self._is_known = False
