"""``syncpod fleet rollout``: the rollout of a workload's template, and its earlier revisions."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_timeout
from syncpod.cli.input.fleet_names import fleet_names
from syncpod.cli.input.kind_words import WORKLOADS
from syncpod.cli.input.options import Namespace, StateDir, Timeout
from syncpod.cli.manual import Group, Page
from syncpod.fleet.workload_traits import KINDS, PAUSABLE, TEMPLATED, one_of

app = typer.Typer(
    cls=Group, help="The rollouts of a Deployment or DaemonSet of the fleet, and its revisions.", no_args_is_help=True
)

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
    kind, name = _named_workload(what)

    from syncpod.cli.actions.fleet_rollout import print_history, print_revision

    if revision:
        print_revision(kind, name, namespace, revision, state_dir)
    else:
        print_history(kind, name, namespace, state_dir)


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
    kind, name = _named_workload(what)

    from syncpod.cli.actions.fleet_rollout import undo_rollout

    undo_rollout(kind, name, namespace, to_revision, state_dir)


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
    (kind, name), patience = _named_workload(what), read_timeout(timeout)

    from syncpod.cli.actions.fleet_rollout import print_status

    print_status(kind, name, namespace, revision, patience, state_dir, watch=watch)


@app.command("restart", cls=Page)
def restart(what: WorkloadName, namespace: Namespace = "default", state_dir: StateDir = "") -> None:
    """Replace all pods of a workload by new ones, step by step, as in the rollout of another template.

    The template gets the annotation `syncpod.dev/fleet-restarted-at`, which stays when the same manifest is applied
    again. A workload whose newest template was rolled back is not restarted: `undo` or apply another template first.
    """
    kind, name = _named_workload(what)

    from syncpod.cli.actions.fleet_rollout import restart_pods

    restart_pods(kind, name, namespace, state_dir)


@app.command("pause", cls=Page)
def pause(what: WorkloadName, namespace: Namespace = "default", state_dir: StateDir = "") -> None:
    """Pause a Deployment: no other template is rolled out until it is resumed.

    A paused Deployment still follows its number of replicas, and its lost pods are replaced. Templates can be applied
    meanwhile.
    """
    kind, name = _pausable(what)

    from syncpod.cli.actions.fleet_rollout import set_paused

    set_paused(kind, name, namespace, state_dir, paused=True)


@app.command("resume", cls=Page)
def resume(what: WorkloadName, namespace: Namespace = "default", state_dir: StateDir = "") -> None:
    """Resume a paused Deployment: its newest template is rolled out."""
    kind, name = _pausable(what)

    from syncpod.cli.actions.fleet_rollout import set_paused

    set_paused(kind, name, namespace, state_dir, paused=False)


def _pausable(what: list[str]) -> tuple[str, str]:
    """Return kind and name of a workload whose rollouts can be paused. Raises BadInput."""
    kind, name = _named_workload(what)
    if not KINDS[kind].is_pausable:
        raise BadInput(f"{' '.join(what)}: only a {one_of(PAUSABLE)} can be paused and resumed")
    return kind, name


def _named_workload(what: list[str]) -> tuple[str, str]:
    """Return kind and name of a workload that has revisions. Raises BadInput."""
    found = fleet_names(what, WORKLOADS, one_of(TEMPLATED).lower())
    pairs = [(kind, name) for kind, names in found.items() for name in names]
    if len(pairs) != 1:
        raise BadInput(f"{' '.join(what)}: name one {one_of(TEMPLATED)}, such as deployment/web")
    return pairs[0]
