"""Shows the last report of a node without a worker, and its orphans, which are found without a worker."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from syncpod.cli.actions.node import ORPHANS, part_lines, report_lines
from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.orphans.found_orphans import without_workflow_here
from syncpod.cli.temporal import session
from syncpod.node.report import NodeCondition

if TYPE_CHECKING:
    from syncpod.node.report import NodeReport

_UNKNOWN: Final = NodeCondition(
    type="Ready", status="Unknown", reason="NodeStatusUnknown", message="the node's worker does not run"
)


def print_last_report(report: NodeReport) -> None:
    """Print the report with the orphans as they are now, and with an unknown Ready condition."""
    known = report.model_copy(update={"ready": _UNKNOWN})
    say("\n".join(report_lines(known, _orphans_now(), datetime.now(UTC))))


def _orphans_now() -> list[str]:
    """Return the lines about orphans, from the runtime and the Temporal server, since no worker reports them."""
    try:
        orphans, nameless = session.run(without_workflow_here)
    except Failure as failure:  # runtime or server may be down; the other parts are printed all the same
        return ["", f"Orphans: <unknown>, {failure}"]
    pods = [(f"{one.pod.namespace}/{one.pod.name}", one.pod.uid, str(one.pod.running), one.why) for one in orphans]
    things = [(f"<unidentified {one.kind}>", one.id, str(one.running), "it names no pod") for one in nameless]
    return part_lines("Orphans:", ORPHANS, [(*row, "left: no worker serves this node") for row in (*pods, *things)])
