"""The node's settings for a command: from flags, the environment and defaults."""

from __future__ import annotations

import os

from syncpod.cli.failure import BadInput
from syncpod.settings.errors import SettingsInvalid
from syncpod.settings.node import NodeSettings, node_settings


def settings(
    *, node: str = "", state_dir: str = "", memory_dir: str = "", runtime_endpoint: str = "", manifests: str = ""
) -> NodeSettings:
    """Return the settings of this machine's node; "" = the flag is not given. Raises BadInput."""
    try:
        return node_settings(
            os.environ,
            node=node or None,
            state_dir=state_dir or None,
            memory_dir=memory_dir or None,
            runtime_endpoint=runtime_endpoint or None,
            manifest_dir=manifests or None,
        )
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
