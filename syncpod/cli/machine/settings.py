"""The node's settings for a command: from flags, the environment and defaults."""

from __future__ import annotations

import os
from pathlib import Path

from syncpod.cli.failure import BadInput
from syncpod.settings.errors import SettingsInvalid
from syncpod.settings.kept import KeptSettings, read_kept_settings
from syncpod.settings.node import NodeSettings, node_settings


def settings(
    *,
    node: str = "",
    state_dir: str = "",
    memory_dir: str = "",
    runtime_endpoint: str = "",
    manifests: str | None = None,
    node_labels: str | None = None,
    pod_max_pids: str = "",
    adopt_cluster: bool = False,
    encrypt: bool | None = None,
    metrics_address: str | None = None,
    journal_age: str = "",
    journal_size: str = "",
) -> NodeSettings:
    """Return the settings of this machine's node; "" = the flag is not given.

    `manifests` "" = the node follows no directory any more, `node_labels` "" = it has no labels of its owner any more,
    `metrics_address` "" = its metrics are not served any more; None = the flag is not given. Raises BadInput.
    """
    try:
        return node_settings(
            os.environ,
            node=node or None,
            state_dir=state_dir or None,
            memory_dir=memory_dir or None,
            runtime_endpoint=runtime_endpoint or None,
            manifest_dir=manifests,
            node_labels=node_labels,
            pod_max_pids=pod_max_pids or None,
            adopt_cluster=adopt_cluster,
            encrypt=encrypt,
            metrics_address=metrics_address,
            journal_age=journal_age or None,
            journal_size=journal_size or None,
        )
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None


def require_valid(here: NodeSettings) -> None:
    """Raise BadInput for a setting that the node's worker would refuse when it starts."""
    from syncpod import checked_settings, telemetry

    try:
        checked_settings.require_valid(here, os.environ)
        telemetry.requested(os.environ)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None


def kept_settings(state_dir: Path) -> KeptSettings:
    """Return what the node of a state directory keeps of how it was started. Raises BadInput."""
    try:
        return read_kept_settings(state_dir)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
