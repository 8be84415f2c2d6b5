"""A short notation for pods with a status, for tables of test cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from syncpod.pod import Pod

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
"""The present time of the tables."""


def ago(**span: float) -> str:
    """The time that long before NOW, in the format of statuses."""
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
    """A pod whose containers have these statuses; `conditions` names the true conditions."""

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
    """The status of a running container."""
    state = {"running": {"startedAt": ago(minutes=4)}}
    return {"name": name, "ready": ready, "started": True, "state": state, **more}


def waiting(reason: str = "", name: str = "app", **more: Any) -> dict[str, Any]:
    """The status of a waiting container."""
    return {"name": name, "ready": False, "state": {"waiting": {"reason": reason} if reason else {}}, **more}


def ended(code: int, reason: str = "", name: str = "app", *, signal: int = 0, **more: Any) -> dict[str, Any]:
    """The status of an ended container."""
    how: dict[str, Any] = {"exitCode": code, "reason": reason} | ({"signal": signal} if signal else {})
    return {"name": name, "ready": False, "state": {"terminated": how}, **more}


def restarted(count: int, **since: float) -> dict[str, Any]:
    """The additional fields of a restarted container's status, whose last instance ended `since` ago."""
    return {"restartCount": count, "lastState": {"terminated": {"exitCode": 1, "finishedAt": ago(**since)}}}
