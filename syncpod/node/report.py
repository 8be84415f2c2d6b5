"""What a node's agent says of its node, on disk: its conditions, its orphans, and what it has tidied up.

For the command line, which reads it in the state directory, as it does the worker's record.
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
    """Something in the runtime that nobody asks for: a pod, or what names none."""

    kind: Literal["pod", "sandbox", "container"] = "pod"
    id: str = ""
    """The runtime's, of what names no pod."""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    why: str = ""
    left: str = ""
    """Why it is left as it is; "" = it is being killed."""
    running: int = 0
    """How many of its containers run."""
    since: datetime | None = None
    """When it was first seen to be one, in this life of the agent."""


class Chore(_Said):
    """Something that the node does again and again."""

    name: str = ""
    every_seconds: float = 0.0
    done: int = 0
    """How much it has removed in this life of the agent."""
    what: str = ""
    """Of what."""


class NodeReport(_Said):
    """All of it."""

    at: datetime | None = None
    conditions: tuple[NodeCondition, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    chores: tuple[Chore, ...] = ()


def write_node_report(state_dir: Path, report: NodeReport) -> None:
    """Replace the report at once or not at all; mode 0600. Blocks. Raises OSError."""
    replace_file(state_dir / _NAME, report.model_dump_json(indent=1) + "\n", durable=False)


def read_node_report(state_dir: Path) -> NodeReport | None:
    """Return what the agent has last said, None where it has said nothing that can be read. Blocks."""
    try:
        return NodeReport.model_validate_json((state_dir / _NAME).read_bytes())
    except (OSError, ValidationError):
        return None
