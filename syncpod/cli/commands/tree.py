"""``syncpod tree``: nodes, their pods and containers, and what each waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.input.arguments import require_json
from syncpod.cli.input.options import NodesIfAny, OnlyJson

if TYPE_CHECKING:
    pass


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
    from syncpod.cli.actions.tree import asked_nodes, branches_of, print_tree

    names = asked_nodes(nodes or [])
    print_tree(branches_of(names), output)
