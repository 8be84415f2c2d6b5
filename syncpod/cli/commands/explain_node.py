"""``syncpod explain node``: which pods of this node restart, and why, from its journal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import say, terminal_width
from syncpod.cli.failure import BadInput, Failure

if TYPE_CHECKING:
    from pathlib import Path

WORDS: Final = (["node"], ["nodes"], ["no"])
"""How the node is named; a pod of that name is `pod/node`."""
_A_DAY: Final = timedelta(days=1)
_MOST: Final = 15
"""How many pods are shown."""


def explain_node(output: str, since: timedelta | None) -> None:
    """Print the node's pods whose containers ended most often lately. Raises Failure and BadInput."""
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.view.node_explanation import document, lines
    from syncpod.journal.reading import NoJournal, absences_of, node_summary, services_of
    from syncpod.node.recorded_events import recorded_cordon, recorded_node_events

    if output not in ("", "json"):
        raise BadInput(f"--output: must be json, not {output}")
    now = datetime.now(UTC)
    here = settings()
    begin = now - (_A_DAY if since is None else since)
    try:
        summary = node_summary(here.state_dir, begin, most=_MOST)
        absences = [each for each in absences_of(services_of(here.state_dir)) if each.ended >= begin]
    except NoJournal as why:
        raise Failure(str(why)) from None
    served = [_served(here.state_dir)]
    if (by := recorded_cordon(here.state_dir)) is not None:
        served.append(f"it is cordoned{by and f' by {by}'}: it takes no new pods (`syncpod uncordon` ends that)")
    events = [each for each in recorded_node_events(here.state_dir) if each.last >= begin]
    if output == "json":
        say(json.dumps(document(summary, events, absences, now, begin, served), indent=4))
    else:
        wide = terminal_width()
        say("\n".join(lines(summary, events, absences, now, begin, node=here.node, served=served, wide=wide)))


def _served(state_dir: Path) -> str:
    """Return by whom the node is served."""
    from syncpod.cli.machine.worker_process import serving
    from syncpod.journal.reading import last_sign_of

    worker = serving(state_dir)
    if worker is None:
        last = last_sign_of(state_dir)
        since = f" since {last.astimezone():%Y-%m-%d %H:%M:%S}" if last is not None else ""
        return f"no worker serves it{since}: nothing happens to its pods before `syncpod up`"
    return f"worker {worker.pid} serves it, on {worker.runtime}; `syncpod node` shows its conditions"
