"""The work of ``syncpod fleet logs``: print the logs of a pod's containers from any node of the fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from syncpod.cli.actions.exec import write_ours
from syncpod.cli.failure import BadInput
from syncpod.cli.input.kind_words import POD_WORDS
from syncpod.cli.streams.command_streams import Output
from syncpod.cli.temporal.fleet_workloads import WORKLOADS

if TYPE_CHECKING:
    from syncpod.cli.streams.command_streams import Write


_FOLLOWED: Final = 5
"""Maximum number of pods that are followed at once, as in kubectl."""


def pod_and_container(words: Sequence[str], container: str) -> tuple[list[str], str]:
    """Return the words that name a pod, and the container, which may be the last word: `logs web app`."""
    if len(words) == 2 and "/" not in words[1] and words[0] not in (*POD_WORDS, *WORKLOADS) and not container:
        return [words[0]], words[1]
    return list(words), container


async def read_all(logs: Sequence[Callable[[Write], Awaitable[int]]], *, follow: bool) -> int:
    """Write logs one after the other, or follow all at once; return the highest exit code. Raises BadInput."""
    if not follow:
        return max([await read(write_ours) for read in logs], default=0)
    if len(logs) > _FOLLOWED:
        raise BadInput(f"{len(logs)} pods would be followed, but at most {_FOLLOWED} may be: choose fewer")

    return max(await asyncio.gather(*map(_by_lines, logs)), default=0)


async def _by_lines(read: Callable[[Write], Awaitable[int]]) -> int:
    """Read a log and write it by whole lines, since others are written at the same time; return the exit code."""
    begun = {Output.STDOUT: bytearray(), Output.STDERR: bytearray()}

    async def write(which: Output, data: bytes) -> None:
        begun[which] += data
        whole = begun[which].rfind(b"\n") + 1
        if whole:
            lines = bytes(begun[which][:whole])
            del begun[which][:whole]
            await write_ours(which, lines)

    code = await read(write)
    for which, rest in begun.items():
        if rest:
            await write_ours(which, bytes(rest))
    return code
