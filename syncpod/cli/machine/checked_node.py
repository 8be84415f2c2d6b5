"""The node of this machine as its worker sees it: its checked settings, its directories and its cgroup."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from syncpod import checked_settings, telemetry
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import memory_directory_of, recorded_worker
from syncpod.cli.machine.worker_process import local_node
from syncpod.settings.node import NodeSettings
from syncpod.settings.table import MEMORY_DIR
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.context import NodeContext


def require_valid(here: NodeSettings) -> None:
    """Raise BadInput for a setting that the node's worker would refuse when it starts."""
    try:
        checked_settings.require_valid(here)
        telemetry.requested(os.environ)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None


def context_of(here: NodeSettings) -> NodeContext:
    """Return the part of the node that the removal of pods' remains needs: its name, directories and cgroup."""
    return NodeContext(
        name=here.node,
        state_dir=here.state_dir,
        memory_dir=here.memory_dir,
        log_dir=here.log_dir,
        cluster="",
        cgroup_parent=here.cgroup_parent,
    )


def this_node() -> NodeContext:
    """Return this machine's node, with the directories that its worker uses. Raises BadInput if there is none."""
    said = settings()
    started = recorded_worker(said.state_dir)
    return replace(
        context_of(said),
        name=local_node(""),
        memory_dir=memory_directory_of(said, is_named=bool(os.environ.get(MEMORY_DIR.variable))),
        log_dir=said.log_dir if started is None else Path(started.log_dir),
    )
