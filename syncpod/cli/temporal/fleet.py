"""Reads and changes a fleet at its own Temporal server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.fleet_home import home_of_a_fleet
from syncpod.cli.temporal import fleet_answers, fleet_memos, session
from syncpod.cli.temporal.fleet_memos import UnreadableMemo
from syncpod.cli.temporal.stuck_fleet import without_the_key_of
from syncpod.fleet_client import KeyMissing, OtherFleet, access_to, check_commander, connect_to_fleet, object_sealing_of
from syncpod.gate.gate import fleet_directory
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.kernel.os_errors import sentence_of
from syncpod.messages.encryption import Undecipherable
from syncpod.messages.fleet import (
    FLEET_NODE_MEMO,
    FLEET_NODE_WORKFLOW,
    FleetNodeSummary,
    FleetNodeView,
    Intent,
    fleet_node_id,
)
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import DIRECTORY
from syncpod.temporal.missing_key import WHAT_TO_DO
from syncpod.temporal.plugin import NoServer
from syncpod.temporal.sdk_runtimes import quiet_runtime

_Result = TypeVar("_Result")


class NoNode(Failure):
    """The fleet has no node of that name."""


class UnreadNode(FleetNodeSummary):
    """A node whose memo cannot be read, so that nothing but its name is known."""

    why: str
    """Why the memo cannot be read, as a clause."""


class StuckNode(FleetNodeSummary):
    """A node whose workflow is stuck: it is Unknown, and its other fields come from the last memo."""

    why: str
    """Why the workflow is stuck, as a clause."""


def run(work: Callable[[Client], Awaitable[_Result]], *, state_dir: str = "") -> _Result:
    """Connect to the fleet's server, do the work and return its result.

    The server is the one that the environment names, or else this machine's own. The fleet's keys are those of the
    state directory. Raises Failure, BadInput.
    """
    here = home_of_a_fleet(state_dir)
    config = session.connection(state_dir, begun_by="syncpod fleet up")
    try:
        access = access_to(here)
    except (SettingsInvalid, OSError) as wrong:
        raise BadInput(f"the fleet's keys cannot be read: {sentence_of(wrong)}") from None

    async def connected() -> _Result:
        client = await connect_to_fleet(config, access, session.who(), quiet_runtime())
        await check_commander(client, access)
        return await work(client)

    try:
        return asyncio.run(connected())
    except NoServer as error:
        raise Failure(str(error)) from None
    except OtherFleet as error:
        raise BadInput(str(error)) from None
    except KeyMissing as error:
        raise BadInput(f"{fleet_directory(here) / DIRECTORY}: {error}: {WHAT_TO_DO}") from None
    except RPCError as error:
        raise session.refused(error, config["target_host"]) from None
    except Undecipherable as error:
        unread = f"the data on the fleet's server cannot be read with the keys in {fleet_directory(here)}"
        raise Failure(f"{unread}: {error}: {WHAT_TO_DO}") from None


def object_sealing(state_dir: str = "") -> ObjectSealing:
    """Return the sealing of the fleet's ConfigMaps and Secrets. Blocks. Raises BadInput."""
    try:
        return object_sealing_of(home_of_a_fleet(state_dir))
    except (SettingsInvalid, OSError) as wrong:
        raise BadInput(f"the fleet's keys cannot be read: {sentence_of(wrong)}") from None


async def summaries(client: Client) -> list[FleetNodeSummary]:
    """Return all nodes of the fleet, sorted by name. This reads only lists, so no worker has to answer.

    A node whose memo cannot be read is returned as an UnreadNode. A node whose workflow lacks a sealing key is returned
    as a StuckNode, since such a workflow no longer updates its memo.
    """
    found = await fleet_memos.running(client, FLEET_NODE_WORKFLOW, FLEET_NODE_MEMO, FleetNodeSummary)
    named = sorted((_named(each, workflow_id) for workflow_id, each in found), key=lambda each: each.name)
    return list(await asyncio.gather(*(_judged(client, each) for each in named)))


async def _judged(client: Client, node: FleetNodeSummary) -> FleetNodeSummary:
    """Return the node, or a StuckNode if its workflow is stuck.

    The server is queried only if the key that the node seals for is missing here.
    """
    if isinstance(node, UnreadNode) or not (why := await without_the_key_of(client, node)):
        return node
    return StuckNode(**node.model_dump() | {"presence": "Unknown", "since": None}, why=why)


def _named(found: FleetNodeSummary | UnreadableMemo, workflow_id: str) -> FleetNodeSummary:
    name = workflow_id.partition("/")[2] or workflow_id
    if isinstance(found, UnreadableMemo):
        return UnreadNode(name=name, presence="Unknown", why=found.why)
    return found if found.name else found.model_copy(update={"name": name})


async def views(client: Client, names: Sequence[str] = ()) -> list[FleetNodeView]:
    """Return these nodes with their pods. Raises Failure for one that does not exist, or does not answer.

    Without names, return all nodes, and print a note that names those that do not answer. Raises Failure if none
    answers.
    """
    if names:
        return list(await asyncio.gather(*(view(client, each) for each in names)))
    asked = [each.name for each in await summaries(client)]
    answers = await asyncio.gather(*(_view_or_failure(client, each) for each in asked))
    found = [each for each in answers if isinstance(each, FleetNodeView)]
    failed = [(name, each) for name, each in zip(asked, answers, strict=True) if isinstance(each, Failure)]
    if failed and not found:
        raise failed[0][1]
    for name, failure in failed:
        remark(f"Note: without node {name}: {failure}")
    return found


async def _view_or_failure(client: Client, name: str) -> FleetNodeView | Failure:
    try:
        return await view(client, name)
    except Failure as failure:
        return failure


async def view(client: Client, name: str) -> FleetNodeView:
    """Return one node with its pods. Raises Failure."""
    try:
        said = await fleet_answers.query(client, handle_of(client, name), "fleet_node")
    except RPCError as error:
        raise _failure(error, client, name) from None
    return FleetNodeView.model_validate(said)


async def update(client: Client, name: str, change: str, *args: Any) -> dict[str, Any]:
    """Send an update to a node's workflow in the fleet; return its answer. Raises Failure if it refuses."""
    try:
        answer: dict[str, Any] = await fleet_answers.update(client, handle_of(client, name), change, *args)
    except RPCError as error:
        raise _failure(error, client, name) from None
    return answer


async def intent(client: Client, name: str) -> Intent:
    """Return the list of pods that the fleet gives a node. Raises Failure."""
    try:
        return Intent.model_validate(await fleet_answers.query(client, handle_of(client, name), "intent"))
    except RPCError as error:
        raise _failure(error, client, name) from None


def handle_of(client: Client, name: str) -> WorkflowHandle[Any, Any]:
    """Return the workflow of a node in the fleet."""
    return client.get_workflow_handle(fleet_node_id(name))


def _failure(error: RPCError, client: Client, name: str) -> Failure:
    if error.status == RPCStatusCode.NOT_FOUND:
        return NoNode(f'nodes "{name}" not found in the fleet')
    return session.refused(error, session.address_of(client))
