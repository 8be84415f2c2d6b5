"""The pods of a node, for its page in the Temporal UI: those that are not ready first, and some of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from syncpod.messages.queries import PodSummary

_SHOWN: Final = 50
"""How many pods the page names."""
_CLIP: Final = 160


class Seen(Protocol):
    """The state of a workflow that may be a pod's."""

    @property
    def is_unready(self) -> bool:
        """Whether it is a pod that is not ready and has not Succeeded."""

    def summary(self) -> PodSummary | None:
        """Return the page's text about it; None = it is no pod."""


def pods_page(pods: Sequence[Seen]) -> str:
    """Return the pods as a list in Markdown; "" if there are none.

    Only the shown pods are examined: a query may not take long, even for many pods.
    """
    if not pods:
        return ""
    unready = [pod for pod in pods if pod.is_unready]
    ready = [pod for pod in pods if not pod.is_unready]
    lines = [f"**Pods of this worker**: {len(unready)} not ready, {len(ready)} ready or completed", ""]
    shown = _lines(unready[:_SHOWN])
    lines += [*shown, *_lines(ready[: _SHOWN - len(shown)])]
    if len(pods) > _SHOWN:
        lines += ["", f"{len(pods) - _SHOWN} more are not shown."]
    return "\n".join(lines)


def _lines(pods: Sequence[Seen]) -> list[str]:
    return [_line(pod) for pod in sorted(filter(None, (pod.summary() for pod in pods)), key=lambda pod: pod.pod)]


def _line(pod: PodSummary) -> str:
    restarts = f", {pod.restarts} restart{'s' if pod.restarts != 1 else ''}" if pod.restarts else ""
    why = " ".join(pod.why.split())
    clipped = why if len(why) <= _CLIP else f"{why[: _CLIP - 1]}…"
    return f"- **{pod.pod}**: {pod.status}{restarts}{f': {clipped}' if clipped else ''}"
