"""Finds the pods of a kubelet on the runtime: that kubelet would kill our pods, which it does not know."""

from __future__ import annotations

from collections.abc import Iterable

from syncpod.cri.port import SandboxSummary
from syncpod.translation import names


def foreign_pods(sandboxes: Iterable[SandboxSummary]) -> tuple[str, ...]:
    """Return the pods, ``namespace/name``, that a kubelet made: they have its labels and no node label of ours."""
    return tuple(
        sorted(
            {
                f"{sandbox.namespace}/{sandbox.name}"
                for sandbox in sandboxes
                if names.POD_UID_LABEL in sandbox.labels and names.NODE_LABEL not in sandbox.labels
            }
        )
    )


def refusal(pods: tuple[str, ...], endpoint: str) -> str:
    """Return one sentence that says why a runtime with these pods is not used."""
    shown = ", ".join(pods[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
    return (
        f"the runtime at {endpoint} has pods of a kubelet ({shown}), which kills pods that it does not know: "
        "stop it and remove them, name another runtime, or insist with SYNCPOD_ALLOW_FOREIGN_KUBELET=true"
    )
