"""``syncpod fleet rollout``: the revisions of a workload, and going back to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import columns, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import Namespace, StateDir
from syncpod.cli.manual import Group, Page

if TYPE_CHECKING:
    from temporalio.client import Client

app = typer.Typer(cls=Group, help="The revisions of a Deployment or DaemonSet of the fleet.", no_args_is_help=True)

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
    from datetime import UTC, datetime

    from syncpod.cli.temporal import fleet, fleet_workloads
    from syncpod.cli.view.documents import print_documents
    from syncpod.cli.view.fleet_description import revision_rows

    kind, name = _named(what)

    async def work(client: Client) -> None:
        (view,) = await fleet_workloads.views(client, kind, namespace, [name])
        if not revision:
            say(f"{kind.lower()}.apps/{name}")
            say("\n".join(columns(revision_rows(view, datetime.now(UTC)))))
            return
        found = next((each.template for each in view.history if each.number == revision), "")
        template = await fleet_workloads.template(client, kind, namespace, name, found) if found else None
        if template is None:
            raise Failure(f"revision {revision} of {kind.lower()}.apps/{name} not found")
        print_documents([template], "yaml", single=True)

    fleet.run(work, state_dir=state_dir)


@app.command("undo", cls=Page)
def undo(
    what: WorkloadName,
    namespace: Namespace = "default",
    to_revision: Annotated[
        int,
        typer.Option("--to-revision", metavar="NUMBER", min=0, help="The revision.", show_default="the previous one"),
    ] = 0,
    state_dir: StateDir = "",
) -> None:
    """Go back to an earlier revision. Its template is rolled out as any other, and becomes the newest revision.

    After a bad template the fleet has rolled back to the last good one by itself. `undo` makes that template the
    workload's own again.
    """
    from syncpod.cli.temporal import fleet, fleet_workloads

    kind, name = _named(what)

    async def work(client: Client) -> None:
        done = await fleet_workloads.undo(client, kind, namespace, name, to_revision)
        if done.skipped:
            why = f"current template already matches revision {done.revision}"
            say(f"{kind.lower()}.apps/{name} skipped rollback ({why})")
        else:
            say(f"{kind.lower()}.apps/{name} rolled back")

    fleet.run(work, state_dir=state_dir)


def _named(what: list[str]) -> tuple[str, str]:
    """Return kind and name of a workload that has revisions. Raises BadInput."""
    from syncpod.cli.temporal.fleet_workloads import KINDS

    words = [word for each in what for word in each.split("/", 1)]
    if len(words) != 2 or words[0] not in KINDS or not words[1]:
        raise BadInput(f"{' '.join(what)}: name one Deployment or DaemonSet, such as deployment/web")
    return KINDS[words[0]], words[1]
