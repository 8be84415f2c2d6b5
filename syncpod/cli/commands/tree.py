"""``syncpod tree``: nodes, their pods and containers, and what each waits for."""

from __future__ import annotations

from collections.abc import Sequence

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import node_names, require_json
from syncpod.cli.input.kind_words import POD_WORDS
from syncpod.cli.input.options import NodesIfAny, OnlyJson


def tree(
    nodes: NodesIfAny = None,
    output: OnlyJson = "",
) -> None:
    """Draw nodes, pods and containers, and what each waits for.

    Without NODE it draws all nodes that have pods. A line names what its pod or container waits for: the end of a
    back-off, an image, the sandbox, an init container, a probe, or a step that is tried again. Pods of this machine's
    node are read from its worker; the lines of other pods come from their status. `syncpod explain POD` has one pod
    in detail.
    """
    require_json(output)
    names = _nodes(nodes or [])
    from syncpod.cli.actions.tree import print_tree, read_branches, without_pods

    branches, notes = read_branches(names)
    if doubtful := without_pods(names, branches):
        from syncpod.cli.actions.missing_nodes import fleet_hint, missing_nodes

        if missing := missing_nodes(doubtful):
            lines = (f'nodes "{name}" not found: {_of_a_pod(name)}{fleet_hint()}' for name in missing)
            raise Failure("\n".join(lines))
    print_tree(branches, notes, output)


def _nodes(words: Sequence[str]) -> list[str]:
    """Return the named nodes. Raises BadInput; if a pod is named, its text has the command for a pod."""
    if words and words[0].partition("/")[0] in POD_WORDS:
        name = words[0].partition("/")[2] or "".join(words[1:2]) or "POD"
        raise BadInput(f"{words[0]!r}: {_of_a_pod(name)}")
    return node_names(words) if words else []


def _of_a_pod(name: str) -> str:
    """Return the hint that this command takes nodes, and that `explain` shows what a pod waits for."""
    return f"name nodes, as NAME or node/NAME; `syncpod explain {name}` says what a pod waits for"
