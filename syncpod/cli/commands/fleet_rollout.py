"""``syncpod fleet rollout``: the rollout of a workload's template, and its earlier revisions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.api.views.text import columns
from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.options import Namespace, StateDir, Timeout
from syncpod.cli.manual import Group, Page
from syncpod.fleet.workload_traits import KINDS

if TYPE_CHECKING:
    from temporalio.client import Client

app = typer.Typer(
    cls=Group, help="The rollouts of a Deployment or DaemonSet of the fleet, and its revisions.", no_args_is_help=True
)

_LOOK_SECONDS = 0.3

WorkloadName = Annotated[list[str], typer.Argument(metavar="KIND/NAME", hidden=True, show_default=False)]


@app.command("history", cls=Page)
def history(
    what: WorkloadName,
    namespace: Namespace = "default",
    revision: Annotated[
        int, typer.Option("--revision", metavar="NUMBER", min=0, help="Show the template of this revision, as YAML.")
    ] = 0,
    state_dir: StateDir = "",
) -> None:
    """List the revisions of a workload: its templates, when and why each was applied, and how its rollout ended.

    CHANGE-CAUSE is the workload's annotation `kubernetes.io/change-cause`. `revisionHistoryLimit` is the number of
    earlier revisions that are kept, 10 by default.
    """
    from syncpod.cli.actions.fleet_rollout import named_workload
    from syncpod.cli.temporal import fleet, fleet_workloads
    from syncpod.cli.view.documents import print_documents
    from syncpod.cli.view.fleet_description import revision_rows

    kind, name = named_workload(what)

    async def work(client: Client) -> None:
        (view,) = await fleet_workloads.views(client, kind, namespace, [name])
        if not revision:
            say(f"{KINDS[kind].resource}/{name}")
            say("\n".join(columns(revision_rows(view, datetime.now(UTC)))))
            return
        found = next((each.template for each in view.history if each.number == revision), "")
        template = await fleet_workloads.template(client, kind, namespace, name, found) if found else None
        if template is None:
            raise Failure(f"revision {revision} of {KINDS[kind].resource}/{name} not found")
        print_documents([template], "yaml", single=True)

    fleet.run(work, state_dir=state_dir)


@app.command("undo", cls=Page)
def undo(
    what: WorkloadName,
    namespace: Namespace = "default",
    to_revision: Annotated[
        int,
        typer.Option("--to-revision", metavar="NUMBER", min=0, help="The revision.", show_default="the last good one"),
    ] = 0,
    state_dir: StateDir = "",
) -> None:
    """Go back to an earlier revision. Its template is rolled out as any other, and becomes the newest revision.

    The default of `--to-revision` is the newest revision that was not rolled back, apart from the current one. After a
    bad template, the fleet itself has already gone back to the last good one; `undo` then makes that template the
    workload's own again.
    """
    from syncpod.cli.actions.fleet_rollout import named_workload
    from syncpod.cli.temporal import fleet, fleet_workloads

    kind, name = named_workload(what)

    async def work(client: Client) -> None:
        done = await fleet_workloads.undo(client, kind, namespace, name, to_revision)
        if done.skipped:
            why = f"current template already matches revision {done.revision}"
            say(f"{KINDS[kind].resource}/{name} skipped rollback ({why})")
        else:
            say(f"{KINDS[kind].resource}/{name} rolled back")

    fleet.run(work, state_dir=state_dir)


@app.command("status", cls=Page)
def status(
    what: WorkloadName,
    namespace: Namespace = "default",
    watch: Annotated[bool, typer.Option("--watch/--no-watch", "-w", help="Wait until the rollout has ended.")] = True,
    revision: Annotated[
        int,
        typer.Option(
            "--revision",
            metavar="NUMBER",
            min=0,
            help="Fail if the newest revision has another number.",
            show_default="any",
        ),
    ] = 0,
    timeout: Timeout = "0",
    state_dir: StateDir = "",
) -> None:
    """Show how the rollout of the newest template stands, and wait until it has ended.

    Exit code 1: the rollout was rolled back, has made no progress within its deadline, or did not end within
    `--timeout`.
    """
    import asyncio

    from syncpod.cli.actions.fleet_rollout import named_workload
    from syncpod.cli.temporal import fleet, fleet_workloads
    from syncpod.cli.view.rollout_status import rollout_status

    (kind, name), patience = named_workload(what), read_timeout(timeout)

    async def work(client: Client) -> None:
        loop, said, is_pause_said = asyncio.get_running_loop(), "", False
        end = loop.time() + patience.total_seconds() if patience else None
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
                raise Failure("timed out waiting for the rollout to end; the rollout continues")
            await asyncio.sleep(_LOOK_SECONDS)

    fleet.run(work, state_dir=state_dir)


@app.command("restart", cls=Page)
def restart(what: WorkloadName, namespace: Namespace = "default", state_dir: StateDir = "") -> None:
    """Replace all pods of a workload by new ones, step by step, as in the rollout of another template.

    The template gets the annotation `syncpod.dev/fleet-restarted-at`, which stays when the same manifest is applied
    again. A workload whose newest template was rolled back is not restarted: `undo` or apply another template first.
    """
    from syncpod.cli.actions.fleet_rollout import named_workload
    from syncpod.cli.temporal import fleet, fleet_workloads

    kind, name = named_workload(what)
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    async def work(client: Client) -> None:
        await fleet_workloads.restart(client, kind, namespace, name, at)
        say(f"{KINDS[kind].resource}/{name} restarted")

    fleet.run(work, state_dir=state_dir)


@app.command("pause", cls=Page)
def pause(what: WorkloadName, namespace: Namespace = "default", state_dir: StateDir = "") -> None:
    """Pause a Deployment: no other template is rolled out until it is resumed.

    A paused Deployment still follows its number of replicas, and its lost pods are replaced. Templates can be applied
    meanwhile.
    """
    from syncpod.cli.actions.fleet_rollout import set_paused

    set_paused(what, namespace, state_dir, paused=True)


@app.command("resume", cls=Page)
def resume(what: WorkloadName, namespace: Namespace = "default", state_dir: StateDir = "") -> None:
    """Resume a paused Deployment: its newest template is rolled out."""
    from syncpod.cli.actions.fleet_rollout import set_paused

    set_paused(what, namespace, state_dir, paused=False)
