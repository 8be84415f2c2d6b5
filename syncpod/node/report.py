"""The agent's report on its node, on disk: conditions, orphans, remains, and its cleanups.

The command line reads it from the state directory.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from syncpod.kernel.atomic_file import replace_file

_NAME = "node-report.json"


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class NodeCondition(_Said):
    """One condition of the node, as a Node object has them."""

    type: str = ""
    status: str = "False"
    since: datetime | None = None
    reason: str = ""
    message: str = ""


class Orphan(_Said):
    """An item in the runtime without a workflow: a pod, or an object that belongs to no pod."""

    kind: Literal["pod", "sandbox", "container"] = "pod"
    id: str = ""
    """Its id in the runtime, if it belongs to no pod."""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    why: str = ""
    left: str = ""
    """Why the node does not kill the orphan; "" = it is being killed."""
    running: int = 0
    """The number of its running containers."""
    since: datetime | None = None
    """When the agent first saw the orphan since it started."""


class Remains(_Said):
    """The remains of a deleted pod, and why the node has not removed them yet."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    why: str = ""


class Chore(_Said):
    """A task that the node does periodically."""

    name: str = ""
    every_seconds: float = 0.0
    done: int = 0
    """The number of removed items since the agent started."""
    what: str = ""
    """The kind of the removed items: containers, images, and so on."""


class NodeReport(_Said):
    """The agent's report on its node, as the file has it."""

    at: datetime | None = None
    conditions: tuple[NodeCondition, ...] = ()
    """The conditions of memory, disk and processes."""
    ready: NodeCondition | None = None
    """The Ready condition; None if an older version, which did not record the condition, wrote the report."""
    orphans: tuple[Orphan, ...] = ()
    remains: tuple[Remains, ...] = ()
    chores: tuple[Chore, ...] = ()


def write_node_report(state_dir: Path, report: NodeReport) -> None:
    """Replace the report atomically; mode 0600. Blocks. Raises OSError."""
    replace_file(state_dir / _NAME, report.model_dump_json(indent=1) + "\n", durable=False)


def read_node_report(state_dir: Path) -> NodeReport | None:
    """Return the agent's last report; None if there is no readable one. Blocks."""
    try:
        return NodeReport.model_validate_json((state_dir / _NAME).read_bytes())
    except (OSError, ValidationError):
        return None
