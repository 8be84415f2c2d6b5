"""The work of ``syncpod key``: the keys that sign the commands to this machine's node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput
from syncpod.cli.machine.settings import settings
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import read_signing_keys

if TYPE_CHECKING:
    from syncpod.settings.node import NodeSettings
    from syncpod.signing.keys import SigningKeys


def node_and_keys(state_dir: str) -> tuple[NodeSettings, SigningKeys]:
    """Return this machine's settings and keys. Raises BadInput if it has no keys."""
    here = settings(state_dir=state_dir)
    try:
        keys = read_signing_keys(here.state_dir)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    if keys is None:
        raise BadInput(f"{here.state_dir} has no key that you may read: commands to its node are not signed by you")
    return here, keys
