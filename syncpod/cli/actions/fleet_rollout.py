"""Shows and changes the rollout of a workload's template: its revisions, its progress, its pause."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from syncpod.api.views.text import columns
from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.cli.view.documents import print_documents
from syncpod.cli.view.fleet_description import revision_rows
from syncpod.cli.view.rollout_status import rollout_status
from syncpod.fleet.workload_traits import KINDS

if TYPE_CHECKING:
    from datetime import timedelta

    from temporalio.client import Client

_LOOK_SECONDS: Final = 0.3


def print_history(kind: str, name: str, namespace: str, state_dir: str) -> None:
    """Print a table of a workload's revisions. Raises Failure."""

    async def work(client: Client) -> None:
        (view,) = await fleet_workloads.views(client, kind, namespace, [name])
        say(f"{KINDS[kind].resource}/{name}")
        say("\n".join(columns(revision_rows(view, datetime.now(UTC)))))

    fleet.run(work, state_dir=state_dir)


def print_revision(kind: str, name: str, namespace: str, revision: int, state_dir: str) -> None:
    """Print the template of one revision of a workload, as YAML. Raises Failure, also if there is no such revision."""

    async def work(client: Client) -> None:
        (view,) = await fleet_workloads.views(client, kind, namespace, [name])
        found = next((each.template for each in view.history if each.number == revision), "")
        template = await fleet_workloads.template(client, kind, namespace, name, found) if found else None
        if template is None:
            raise Failure(f"revision {revision} of {KINDS[kind].resource}/{name} not found")
        print_documents([template], "yaml", single=True)

    fleet.run(work, state_dir=state_dir)


def undo_rollout(kind: str, name: str, namespace: str, revision: int, state_dir: str) -> None:
    """Have a workload go back to a revision; 0 = the last good one. Raises Failure."""

    async def work(client: Client) -> None:
        done = await fleet_workloads.undo(client, kind, namespace, name, revision)
        if done.skipped:
            why = f"current template already matches revision {done.revision}"
            say(f"{KINDS[kind].resource}/{name} skipped rollback ({why})")
        else:
            say(f"{KINDS[kind].resource}/{name} rolled back")

    fleet.run(work, state_dir=state_dir)


def print_status(
    kind: str, name: str, namespace: str, revision: int, patience: timedelta | None, state_dir: str, *, watch: bool
) -> None:
    """Print how the newest rollout stands; with `watch`, each change until it has ended, at most for `patience`.

    `patience` None = as long as it takes. Raises Failure if the rollout fails, the time is over, or the newest revision
    has another number than `revision` (0 = any).
    """

    async def work(client: Client) -> None:
        end = asyncio.get_running_loop().time() + patience.total_seconds() if patience else None
        await follow_rollout(client, kind, name, namespace, revision, end, watch=watch)

    fleet.run(work, state_dir=state_dir)


async def follow_rollout(
    client: Client, kind: str, name: str, namespace: str, revision: int, end: float | None, *, watch: bool = True
) -> None:
    """Print how the newest rollout stands as `print_status` does, until `end` in the loop's time; None = no limit."""
    loop, said, is_pause_said = asyncio.get_running_loop(), "", False
    while True:
        (view,) = await fleet_workloads.views(client, kind, namespace, [name])
        found = rollout_status(view, revision)
        if found.state == "failed":
            raise Failure(found.text)
        if found.text != said:
            said = found.text
            say(said)
        if found.state == "done" or not watch:
            return
        if view.paused and not is_pause_said:
            is_pause_said = True
            remark(f"it is paused: `{program()} fleet rollout resume {kind.lower()}/{name}` resumes it")
        if end is not None and loop.time() >= end:
            raise Failure(f"timed out waiting for the rollout of {kind.lower()}/{name} to end; the rollout continues")
        await asyncio.sleep(_LOOK_SECONDS)


def restart_pods(kind: str, name: str, namespace: str, state_dir: str) -> None:
    """Have all pods of a workload replaced, as in the rollout of another template. Raises Failure."""
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    async def work(client: Client) -> None:
        await fleet_workloads.restart(client, kind, namespace, name, at)
        say(f"{KINDS[kind].resource}/{name} restarted")

    fleet.run(work, state_dir=state_dir)


def set_paused(kind: str, name: str, namespace: str, state_dir: str, *, paused: bool) -> None:
    """Pause or resume the rollouts of a workload. Raises Failure, also if they already are as requested."""

    async def work(client: Client) -> None:
        (view,) = await fleet_workloads.views(client, kind, namespace, [name])
        if view.paused == paused:
            raise Failure(f'{KINDS[kind].resources} "{name}" is {"already" if paused else "not"} paused')
        await fleet_workloads.pause(client, kind, namespace, name, paused=paused)
        say(f"{KINDS[kind].resource}/{name} {'paused' if paused else 'resumed'}")

    fleet.run(work, state_dir=state_dir)
