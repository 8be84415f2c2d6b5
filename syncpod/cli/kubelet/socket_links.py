"""Puts a node's sockets for programs where they look for a kubelet's: below the root directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ALWAYS: Final = ("pod-resources", "graceful_node_shutdown_state")
"""The second is no socket, but a file with the times of the last shutdown."""
PODS_API: Final = "pods-api"


def link_sockets(root: Path, state_dir: Path, names: Iterable[str]) -> Iterator[str]:
    """Make, for each directory of sockets, a link below `root` to the node's; return a warning where that cannot be.

    Files of others stay, such as the directory of an earlier kubelet.
    """
    for name in names:
        link, place = root / name, state_dir / name
        try:
            if link.is_symlink() and link.readlink() != place:
                link.unlink()
            if not link.is_symlink():
                link.symlink_to(place)
        except OSError as error:
            yield f"{link}: {error.strerror}: programs have to look for the socket in {place}"
