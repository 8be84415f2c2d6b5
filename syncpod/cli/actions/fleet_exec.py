"""Runs commands in containers on the nodes of a fleet, and attaches to them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from syncpod.cli.actions.exec import lend
from syncpod.cli.fleet_endpoint import to_endpoint
from syncpod.cli.fleet_remote_commands import run_there
from syncpod.cli.streams import terminal
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.fleet_pods import find_pod

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.streams.command_streams import Write


@dataclass(frozen=True)
class FleetExec:
    """An `exec` in a container of a pod, or an `attach` to it, by the pod's node."""

    verb: Literal["exec", "attach"]
    pod: str
    """The pod, or a workload, one of whose pods is meant."""
    namespace: str
    node: str
    """The pod's node; "" = any."""
    container: str
    """The container; "" = the default one."""
    inner: Sequence[str] = ()
    """The command that `exec` runs in the container."""
    stdin: bool = False
    """Whether it reads our input."""
    tty: bool = False
    """Whether it gets our terminal."""


def run_remotely(wanted: FleetExec, state_dir: str) -> int:
    """Run the command on the pod's node with our streams, and return its exit code.

    Raises BadInput, also if our input is needed and closed, and Failure.
    """
    stdin, tty = wanted.stdin, wanted.tty
    flags = [f"--namespace={wanted.namespace}", *([f"--container={wanted.container}"] if wanted.container else [])]
    flags += [flag for flag, is_given in (("--stdin", stdin), ("--tty", tty)) if is_given]
    if stdin:
        terminal.our_input()  # raises if our input is closed, before a node is called

    async def work(client: Client) -> int:
        found = await find_pod(client, [wanted.pod], wanted.namespace, wanted.node)
        asked = [wanted.verb, found.name, *flags, *(["--", *wanted.inner] if wanted.inner else [])]

        if wanted.verb == "attach" or tty:
            async with to_endpoint(state_dir, found.node, "a terminal" if tty else f"`{wanted.verb}`") as way:
                return await lend(partial(way.run, asked, term=os.environ.get("TERM", "")), stdin=stdin, tty=tty)

        async def run(*, stdin: AsyncIterator[bytes] | None, write: Write, sizes: None) -> int:
            return await run_there(client, found.node, asked, stdin=stdin, write=write, state_dir=state_dir)

        return await lend(run, stdin=stdin, tty=False)

    return fleet.run(work, state_dir=state_dir)
