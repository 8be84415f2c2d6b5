"""The pods of a node, for its page in the Temporal UI: those that are not ready, and how many others there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from syncpod.messages.glance import Glance

_SHOWN: Final = 50
"""How many of the pods that are not ready the page names."""
_CLIP: Final = 160


class Seen(Protocol):
    """The state of a workflow that may be a pod's."""

    @property
    def is_unready(self) -> bool:
        """Whether it is a pod that is not ready and has not Succeeded."""

    def glance(self) -> Glance | None:
        """Return what the page shows of it; None = it is no pod."""


def pods_page(pods: Sequence[Seen]) -> str:
    """Return the pods as Markdown; "" if there are none.

    Only those that are shown are looked at closely: a query may not take long, however many pods there are.
    """
    if not pods:
        return ""
    unready = [pod for pod in pods if pod.is_unready]
    others = len(pods) - len(unready)
    told = f"Pods of this worker: {len(unready)} not ready, {others} ready or completed"
    if not unready:
        return told
    rows = sorted(filter(None, (pod.glance() for pod in unready[:_SHOWN])), key=lambda row: row.pod)
    lines = [told, "", "| pod | status | restarts | why |", "|---|---|---|---|"]
    lines += [f"| {_cell(row.pod)} | {_cell(row.status)} | {row.restarts} | {_cell(row.why)} |" for row in rows]
    if len(unready) > _SHOWN:
        lines += ["", f"{len(unready) - _SHOWN} more that are not ready are not shown."]
    return "\n".join(lines)


def _cell(text: str) -> str:
    line = " ".join(text.replace("|", "\\|").split())
    return line if len(line) <= _CLIP else f"{line[: _CLIP - 1]}…"
