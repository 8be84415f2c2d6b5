"""``syncpod fleet logs``: print the logs of a pod's containers from any node of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from syncpod.cli.commands import logs as local
from syncpod.cli.commands.exec import write_ours
from syncpod.cli.input.options import Container, Namespace, OfNode, PodNames, StateDir

if TYPE_CHECKING:
    from temporalio.client import Client


def logs(
    what: PodNames = None,
    namespace: Namespace = "default",
    node: OfNode = "",
    container: Container = "",
    all_containers: local.AllContainers = False,
    follow: local.Follow = False,
    previous: local.Previous = False,
    restart: local.Restart = None,
    tail: local.Tail = -1,
    since: local.Since = None,
    since_time: local.SinceTime = None,
    rotated: local.Rotated = False,
    limit_bytes: local.LimitBytes = 0,
    timestamps: local.Timestamps = False,
    prefix: local.Prefix = False,
    state_dir: StateDir = "",
) -> None:
    """Print the logs of a pod's containers on any node of the fleet.

    The node reads them as `syncpod logs` does there, and sends them sealed. `deployment/web` means one of the
    Deployment's pods. With --follow the command goes on until the container ends, or until Ctrl-C.
    """
    from syncpod.cli.fleet_errands import run_there
    from syncpod.cli.streams import interrupts
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.fleet_pods import find_pod, kind_and_name
    from syncpod.cli.temporal.fleet_workloads import KINDS

    words = list(what or [])
    if len(words) == 2 and "/" not in words[1] and words[0] not in ("pod", "pods", "po", *KINDS) and not container:
        words, container = words[:1], words[1]
    kind_and_name(words)
    flags = [f"--container={container}"] if container else []
    given = {"--since": since, "--since-time": since_time, "--restart": restart}
    numbers = {"--tail": (tail, -1), "--limit-bytes": (limit_bytes, 0)}
    switches = {
        "--all-containers": all_containers, "--follow": follow, "--previous": previous, "--rotated": rotated,
        "--timestamps": timestamps, "--prefix": prefix,
    }  # fmt: skip
    # One that is given without a value goes to the node too, which says what would be right.
    flags += [f"{flag}={value}" for flag, value in given.items() if value is not None]
    flags += [f"{flag}={number}" for flag, (number, without) in numbers.items() if number != without]
    flags += [flag for flag, is_given in switches.items() if is_given]

    async def work(client: Client) -> int:
        found = await find_pod(client, words, namespace, node)
        asked = ["logs", found.name, f"--namespace={namespace}", *flags]
        return await run_there(client, found.node, asked, write=write_ours, state_dir=state_dir)

    if follow:
        interrupts.enable()
    raise typer.Exit(fleet.run(work, state_dir=state_dir))
