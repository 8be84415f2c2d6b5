"""``syncpod replay``: whether the code at hand would make the decisions that a run has made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer

from syncpod.cli.failure import FAILED, BadInput
from syncpod.cli.input.arguments import nodes_among, pod_names, require_json
from syncpod.cli.input.options import Namespace, OnlyJson, PodNames


def replay(
    what: PodNames = None,
    filename: Annotated[
        str,
        typer.Option(
            "--filename", "-f", metavar="FILE|-", help="A history as `temporal workflow show -o json` has it."
        ),
    ] = "",
    namespace: Namespace = "default",
    run_id: Annotated[str, typer.Option("--run-id", metavar="ID", help="This run, instead of the newest.")] = "",
    all_runs: Annotated[
        bool, typer.Option("--all", help="Also the runs before it, as far as each continued as new.")
    ] = False,
    output: OnlyJson = "",
) -> None:
    """Replay a pod's decisions with the code at hand.

    It names the first decision in which this version of the program differs from the recorded history: a step, a wait,
    or the end of the run. It needs only the history: no worker, and nothing is sent to the workflow. Pods that have
    ended can be replayed for as long as Temporal keeps them. `node/NAME` is the workflow of a node.
    """
    words = what or []
    if bool(words) == bool(filename):
        raise BadInput("name a pod whose history Temporal has, or a file with one: -f FILE")
    if filename and (run_id or all_runs):
        raise BadInput("--run-id, --all: a file has one run")
    require_json(output)
    if run_id and not _is_run_id(run_id):
        raise BadInput(f"--run-id: must be the id of a run, 0198f3c2-7d4e-7b1a-9c55-2f6f0e0d7a10, not {run_id!r}")
    pods, nodes = ([], []) if filename else _named(words)
    if run_id and len(pods) + len(nodes) != 1:
        raise BadInput("--run-id: a run is of one pod; name one")
    from syncpod.cli.actions.replay import replay_file, replay_workflows

    if filename:
        differs = replay_file(filename, output)
    else:
        differs = replay_workflows(namespace, pods, nodes, run_id, output, all_runs=all_runs)
    raise typer.Exit(FAILED if differs else 0)


def _named(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of pods and of nodes. Raises BadInput."""
    nodes, rest = nodes_among(words)
    pods = pod_names(rest)
    if not pods and not nodes:
        raise BadInput("name a pod")
    return pods, nodes


def _is_run_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
