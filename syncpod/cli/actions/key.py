"""Reads the keys that sign the commands to this machine's node, and lists them; it needs no Temporal server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.api.views.durations import age
from syncpod.api.views.text import columns
from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.settings import settings
from syncpod.messages.signature import key_id
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import read_signing_keys

if TYPE_CHECKING:
    from syncpod.settings.node import NodeSettings
    from syncpod.signing.keys import SigningKeys


def list_keys(state_dir: str) -> None:
    """Print the keys by their ids, the oldest first. Raises BadInput if there are none."""
    _, keys = node_and_keys(state_dir)
    current = key_id(keys.current)
    made = {named: keys.made_at(named) for named in keys.by_id}
    rows = [("ID", "AGE", "USE")]
    for named in sorted(made, key=lambda named: (made[named], named)):
        use = "signs and verifies" if named == current else "verifies"
        rows.append((named, age(datetime.fromtimestamp(made[named], UTC)), use))
    say("\n".join(columns(rows)))


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
