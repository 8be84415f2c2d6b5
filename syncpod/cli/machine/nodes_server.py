"""Whether the Temporal server that this command talks to is another one than the server of this machine's node.

A pod of the node has no workflow there, and may have one on its own server. So nothing that the other server says shows
which pods are orphans. A command is one process, which learns this when it connects.
"""

from __future__ import annotations

from pathlib import Path

_others: dict[Path, str] = {}
"""By state directory of a node: the address at which another server than the node's has answered."""


def note_server(state_dir: Path, address: str, *, is_own: bool) -> None:
    """Note whether the server that answers at `address` is that of the state directory's node."""
    _others.pop(state_dir, None)
    if not is_own:
        _others[state_dir] = address


def other_server(state_dir: Path) -> str:
    """Return the address of the server that this command talks to; "" if that is the node's own, or nobody knows."""
    return _others.get(state_dir, "")
