"""Copies files to and from containers on the nodes of a fleet, with the ``tar`` of each container."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncpod.cli.actions.cp import copied
from syncpod.cli.fleet_remote_commands import run_there
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_pods import find_pod

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.input.copy_locations import CopyLocation
    from syncpod.cli.streams.command_streams import Write


@dataclass(frozen=True)
class FleetCopy:
    """A copy between this machine and a container; exactly one of the two ends is in a pod."""

    source: CopyLocation
    destination: CopyLocation
    namespace: str
    """The namespace of a pod whose end names none."""
    node: str
    """The pod's node; "" = any."""
    container: str
    """The container; "" = the default one."""
    preserve: bool
    """Whether owners and permissions are kept in a container."""


def _place(pod: str, container: str) -> str:
    """Return the words for a container in messages. Only the node knows which container is a pod's default one."""
    return f'container "{container}"' if container else f'the default container of pod "{pod}"'


def copy_files(wanted: FleetCopy, state_dir: str) -> None:
    """Copy through the pod's node. Raises BadInput, Failure."""
    inside = wanted.source if wanted.source.pod else wanted.destination
    where = inside.namespace or wanted.namespace
    flags = [f"--namespace={where}", *([f"--container={wanted.container}"] if wanted.container else [])]

    async def work(client: Client) -> None:
        found = await find_pod(client, [inside.pod], where, wanted.node)

        async def run(command: Sequence[str], stdin: AsyncIterator[bytes] | None, write: Write) -> int:
            words = ["exec", found.name, *flags, *(["--stdin"] if stdin is not None else []), "--", *command]
            return await run_there(client, found.node, words, stdin=stdin, write=write, state_dir=state_dir, typed="cp")

        place = _place(found.name, wanted.container)
        await copied(run, place, wanted.source, wanted.destination, preserve=wanted.preserve)

    fleet.run(work, state_dir=state_dir)
