"""Reads the node's settings for a command, from flags, the environment and defaults."""

from __future__ import annotations

import os
from pathlib import Path

from syncpod.cli.failure import BadInput
from syncpod.settings.kept import KeptSettings, read_kept_settings
from syncpod.settings.node import NodeSettings, node_settings
from syncpod.settings.table import BY_NAME
from syncpod.settings.values import SettingsInvalid


def settings(*, state_dir: str = "", adopt_cluster: bool = False, **flags: str | bool | None) -> NodeSettings:
    """Return the settings of this machine's node. `flags` have their names in the table of settings.

    None = the flag is not given. "" unsets a setting that may be none, and otherwise means the same as None. Raises
    BadInput.
    """
    given = {name: None if text == "" and not BY_NAME[name].may_be_none else text for name, text in flags.items()}
    try:
        return node_settings(
            os.environ, state_dir=state_dir or None, allow_foreign_kubelet=None, adopt_cluster=adopt_cluster, **given
        )
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None


def path_setting(path: str, *, none: bool) -> str | None:
    """Return a path's setting: the absolute path; None without a path (keep it); "" with `none` (unset it)."""
    return "" if none else str(Path(path).absolute()) if path else None


def kept_settings(state_dir: Path) -> KeptSettings:
    """Return the settings with which the node of a state directory was last started. Raises BadInput."""
    try:
        return read_kept_settings(state_dir)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
