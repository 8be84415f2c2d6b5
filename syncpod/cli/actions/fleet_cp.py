"""Copies files to and from containers on the nodes of a fleet, with the ``tar`` of each container."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncpod.cli.actions.cp import copied
from syncpod.cli.fleet_remote_commands import run_there
from syncpod.cli.streams.command_streams import NeverRan, Output
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


_COMPLAINT: Final = 2000
"""Maximum number of bytes of the standard error of a command that are searched for the node's refusal."""


def _refusal(errors: str) -> str:
    """Return why the node's own `exec` failed, from its standard error; "" if the container's program has failed."""
    mark = "syncpod: "
    return "\n".join(line.removeprefix(mark) for line in errors.splitlines() if line.startswith(mark))


def copy_files(wanted: FleetCopy, state_dir: str) -> None:
    """Copy through the pod's node. Raises BadInput, Failure."""
    inside = wanted.source if wanted.source.pod else wanted.destination
    where = inside.namespace or wanted.namespace
    flags = [f"--namespace={where}", *([f"--container={wanted.container}"] if wanted.container else [])]

    async def work(client: Client) -> None:
        found = await find_pod(client, [inside.pod], where, wanted.node)

        async def run(command: Sequence[str], stdin: AsyncIterator[bytes] | None, write: Write) -> int:
            words = ["exec", found.name, *flags, *(["--stdin"] if stdin is not None else []), "--", *command]
            errors = bytearray()

            async def heard(which: Output, data: bytes) -> None:
                if which is Output.STDERR:
                    errors.extend(data)
                    del errors[:-_COMPLAINT]
                await write(which, data)

            code = await run_there(client, found.node, words, stdin=stdin, write=heard, state_dir=state_dir, typed="cp")
            if code and (why := _refusal(errors.decode(errors="replace"))):
                raise NeverRan(why, code)
            return code

        place = _place(found.name, wanted.container)
        await copied(run, place, wanted.source, wanted.destination, preserve=wanted.preserve)

    fleet.run(work, state_dir=state_dir)
