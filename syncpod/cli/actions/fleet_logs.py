"""Prints the logs of pods from the nodes of a fleet: of one pod, or of several, which may be followed together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from syncpod.cli.actions.exec import write_ours
from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.fleet_remote_commands import run_there
from syncpod.cli.streams.command_streams import Output
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_pods import find_pod, require_taken, selected_pods

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.api.label_selector import Selector
    from syncpod.cli.streams.command_streams import Write
    from syncpod.cli.temporal.fleet_pods import FoundPod


def print_pod_logs(words: Sequence[str], namespace: str, node: str, flags: Sequence[str], state_dir: str) -> int:
    """Print the logs of the pod that `words` name, or of one of a workload's pods; return the exit code.

    `node` is where it is; "" = anywhere. `flags` are those of the node's own `logs`. Raises BadInput, Failure.
    """

    async def work(client: Client) -> int:
        return await _read(client, await find_pod(client, words, namespace, node), flags, state_dir, write_ours)

    return fleet.run(work, state_dir=state_dir)


def print_selected_logs(
    conditions: Selector,
    namespace: str,
    node: str,
    flags: Sequence[str],
    state_dir: str,
    *,
    most_followed: int | None,
    ignore_errors: bool,
) -> int:
    """Print the logs of all pods whose labels meet the conditions; return the highest exit code.

    The logs are followed together, those of at most `most_followed` pods; None = they are not followed. With
    `ignore_errors`, a node that does not answer is reported, and the others' logs are printed. Raises BadInput, also if
    too many pods would be followed, and Failure.
    """
    read = _reported if ignore_errors else _read_of_fleet

    async def work(client: Client) -> int:
        pods = await selected_pods(client, conditions.matches, namespace, node)
        if not pods:
            remark(f"No resources found in {namespace} namespace.")
        logs = [partial(read, client, pod, flags, state_dir) for pod in pods]
        return await _read_all(logs, most_followed)

    return fleet.run(work, state_dir=state_dir)


async def _read(client: Client, pod: FoundPod, flags: Sequence[str], state_dir: str, write: Write) -> int:
    """Have a pod's node read its logs, and return the exit code. Raises Failure."""
    return await run_there(client, pod.node, ["logs", pod.name, *flags], write=write, state_dir=state_dir)


async def _read_of_fleet(client: Client, pod: FoundPod, flags: Sequence[str], state_dir: str, write: Write) -> int:
    """As `_read`, but never of another pod of that name. Raises Failure."""
    return await _read(client, require_taken(pod), flags, state_dir, write)


async def _reported(client: Client, pod: FoundPod, flags: Sequence[str], state_dir: str, write: Write) -> int:
    """Have a pod's node read its logs, and return the exit code; print a note if the node does not answer."""
    try:
        return await _read_of_fleet(client, pod, flags, state_dir, write)
    except Failure as failure:
        remark(f"Note: pod {pod.name}: {failure}")
        return 0


async def _read_all(logs: Sequence[Callable[[Write], Awaitable[int]]], most_followed: int | None) -> int:
    """Write logs one after the other, or follow all at once; return the highest exit code. Raises BadInput."""
    if most_followed is None:
        return max([await read(write_ours) for read in logs], default=0)
    if len(logs) > most_followed:
        raise BadInput(
            f"{len(logs)} pods would be followed, but at most {most_followed} may be: "
            "raise --max-log-requests, or choose fewer"
        )

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
