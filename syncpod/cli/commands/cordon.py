"""``syncpod cordon`` and ``syncpod uncordon``: set whether a node takes new pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.input.arguments import node_names

if TYPE_CHECKING:
    from temporalio.client import Client

NodeNames = Annotated[list[str], typer.Argument(metavar="NODE", hidden=True, show_default=False)]


def cordon(nodes: NodeNames) -> None:
    """Mark a node as unschedulable: it takes no new pods.

    Its pods keep running, also across restarts of the node, and so do those of its manifest directory.
    """
    _change(nodes, "cordon")


def uncordon(nodes: NodeNames) -> None:
    """Mark a node as schedulable: it takes new pods again."""
    _change(nodes, "uncordon")


def _change(words: list[str], change: Literal["cordon", "uncordon"]) -> None:
    from syncpod.cli.temporal import session

    names = node_names(words)

    async def work(client: Client) -> None:
        for name in names:
            say(f"node/{name} {await set_schedulable(client, name, change)}")

    session.run(work)


async def set_schedulable(client: Client, name: str, change: Literal["cordon", "uncordon"]) -> str:
    """Cordon or uncordon one node; return the result in kubectl's words.

    Raises Failure if there is no such node, or if it refuses or does not answer.
    """
    import asyncio

    from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
    from temporalio.service import RPCError, RPCStatusCode

    from syncpod.cli.temporal.liveness import absence
    from syncpod.cli.temporal.nodes import require_node
    from syncpod.cli.temporal.updates import AGAIN, PAUSE_SECONDS, answer_in_time, refused_because, stop_if_cancelled
    from syncpod.messages.node import node_workflow_id

    fetched = await require_node(client, name)
    if fetched.view.unschedulable is (change == "cordon"):
        return f"already {change}ed"

    asked = {"by": client.identity.partition(", pid ")[0]}

    async def send() -> bool:
        while True:
            try:
                await client.get_workflow_handle(node_workflow_id(name)).execute_update(change, asked, result_type=dict)
            except WorkflowUpdateFailedError as error:
                raise Failure(f'node "{name}": {refused_because(error)}') from None
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                stop_if_cancelled()
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    raise Failure(f'nodes "{name}" not found') from None
                if error.status not in AGAIN:
                    raise
            else:
                return True
            await asyncio.sleep(PAUSE_SECONDS)

    if not await answer_in_time(client, name, send()):
        raise Failure(f"{await absence(client, (name,))}, so it is not known whether it is {change}ed")
    return f"{change}ed"
