"""Mounts without mount namespaces: symbolic links at the paths where containers expect their volumes.

Several containers may share a link (a pod's containers, one volume, one path), and the last container removes it. So
each container claims the link in a registry on disk before the link is made; a later server finds the claim.

    REGISTRY/<hash of the path>/link      the path and the target of the link
    REGISTRY/<hash of the path>/claim-ID  one for each container
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from syncpod.runtime.port import Mount
from syncpod.runtime.processes.records import write_json

HOSTS_OWN = frozenset({"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"})
"""Files that every container gets, but that cannot be private here. Containers use the machine's files instead, and
have no termination message."""


class Links:
    """The links of one state directory. Each method touches a few files and does not wait."""

    def __init__(self, registry: Path) -> None:
        """Keep claims in the directory `registry`, which is made when it is needed."""
        self._registry = registry

    def refusal(self, mount: Mount) -> str | None:
        """Return, in a sentence, why the mount cannot be a link; None if it can."""
        path = os.path.normpath(mount.container_path)
        if path in HOSTS_OWN or _is_same(path, mount.host_path):
            return None
        needs = "without mount namespaces a mount is a symbolic link"
        if mount.recursive_read_only:
            return f"mount {path}: {needs}, which cannot be recursively read-only"
        if above := self._link_above(path):
            return f"mount {path}: {needs}, and {above} is one: what is made in it is made in that volume"
        if os.path.lexists(path):
            ours = (self._entry(path) / "link").exists()
            if ours and os.path.islink(path) and os.readlink(path) == mount.host_path:  # noqa: PTH114, PTH115
                return None
            return f"mount {path}: {needs}, and something else is there on this machine"
        parent = os.path.dirname(path)  # noqa: PTH120
        if not os.path.isdir(parent) or not os.access(parent, os.W_OK | os.X_OK):  # noqa: PTH112
            return f"mount {path}: {needs}, and {parent} is not a directory that this user may write to"
        return None

    def make(self, container: str, mounts: tuple[Mount, ...]) -> None:
        """Make a container's links. Raises OSError; `release` then removes those that were made."""
        for mount in mounts:
            path = os.path.normpath(mount.container_path)
            if path in HOSTS_OWN or _is_same(path, mount.host_path):
                continue
            entry = self._entry(path)
            entry.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_json(entry / "link", {"path": path, "target": mount.host_path})
            (entry / f"claim-{container}").touch()
            if not os.path.islink(path):  # noqa: PTH114
                os.symlink(mount.host_path, path)  # noqa: PTH211

    def release(self, container: str) -> None:
        """Drop a container's claims, and remove the links that then have no claim. Safe to repeat."""
        for claim in self._registry.glob(f"*/claim-{container}"):
            entry = claim.parent
            claim.unlink(missing_ok=True)
            if any(entry.glob("claim-*")):
                continue
            link = json.loads((entry / "link").read_bytes())
            with contextlib.suppress(OSError):  # The link has gone, or belongs to somebody else by now.
                if os.readlink(link["path"]) == link["target"]:  # noqa: PTH115
                    os.unlink(link["path"])  # noqa: PTH108
            (entry / "link").unlink()
            entry.rmdir()

    def _link_above(self, path: str) -> str | None:
        """Return a parent of the path that is a link of ours, so that it may vanish with its container; else None."""
        above = path
        while (above := os.path.dirname(above)) not in ("/", ""):  # noqa: PTH120
            if (self._entry(above) / "link").exists():
                return above
        return None

    def _entry(self, path: str) -> Path:
        return self._registry / hashlib.sha256(os.fsencode(path)).hexdigest()


def _is_same(path: str, host_path: str) -> bool:
    return path == os.path.normpath(host_path) or (
        os.path.exists(path) and os.path.realpath(path) == os.path.realpath(host_path) and not os.path.islink(path)  # noqa: PTH110, PTH114
    )
