"""A short notation for pods with a status, for tables of test cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from syncpod.pod import Pod

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
"""When the tables are printed."""


def ago(**span: float) -> str:
    """The moment that long before NOW, as the wire has it."""
    return (NOW - timedelta(**span)).isoformat().replace("+00:00", "Z")


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    phase: str = "Running",
    sidecars: tuple[str, ...] = (),
    conditions: tuple[str, ...] = (),
    metadata: dict[str, Any] | None = None,
    **status: Any,
) -> Pod:
    """A pod whose containers have these statuses; `conditions` are those that are true."""

    def spec(entries: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        return [
            {"name": entry["name"], "image": "busybox:1"}
            | ({"restartPolicy": "Always"} if entry["name"] in sidecars else {})
            for entry in entries
        ]

    return Pod.model_validate(
        {
            "metadata": {"name": "web", "namespace": "default", "creationTimestamp": ago(minutes=5)} | (metadata or {}),
            "spec": {"nodeName": "vm", "containers": spec(containers), "initContainers": spec(init)},
            "status": {
                "phase": phase,
                "containerStatuses": list(containers),
                "initContainerStatuses": list(init),
                "conditions": [{"type": name, "status": "True"} for name in conditions],
                **status,
            },
        }
    )


def running(name: str = "app", *, ready: bool = True, **more: Any) -> dict[str, Any]:
    """A container that runs."""
    state = {"running": {"startedAt": ago(minutes=4)}}
    return {"name": name, "ready": ready, "started": True, "state": state, **more}


def waiting(reason: str = "", name: str = "app", **more: Any) -> dict[str, Any]:
    """A container that waits."""
    return {"name": name, "ready": False, "state": {"waiting": {"reason": reason} if reason else {}}, **more}


def ended(code: int, reason: str = "", name: str = "app", *, signal: int = 0, **more: Any) -> dict[str, Any]:
    """A container that has ended."""
    how: dict[str, Any] = {"exitCode": code, "reason": reason} | ({"signal": signal} if signal else {})
    return {"name": name, "ready": False, "state": {"terminated": how}, **more}


def restarted(count: int, **since: float) -> dict[str, Any]:
    """What a container's status has more when it was restarted, the last instance having ended `since` ago."""
    return {"restartCount": count, "lastState": {"terminated": {"exitCode": 1, "finishedAt": ago(**since)}}}
