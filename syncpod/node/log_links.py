"""Links to containers' logs, by which log agents find the logs: ``<pod>_<namespace>_<container>-<id>.log``.

The links lie in ``containers`` next to the directory of the pods' logs: in ``/var/log/containers`` for
``/var/log/pods``, as the kubelet has them. Another kubelet may use the same directory, so only links that lead into a
pod's logs of this node are touched. Everything blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_SUFFIX: Final = ".log"
_LONGEST: Final = 255 - len(_SUFFIX)
"""Maximum bytes of a link's name before its suffix; a longer name is cut, so that a part of the container's id is
missing."""


def links_directory(log_dir: Path) -> Path:
    """Return the directory that has the links to the logs below `log_dir`."""
    return log_dir.with_name("containers")


def make_log_link(log_dir: Path, log: Path, container: str, container_id: str) -> None:
    """Make the link to a container's log, if the log exists; safe to repeat.

    `log` is ``<log_dir>/<namespace>_<pod>_<uid>/<container>/<n>.log``; no link is made for another path. A link of an
    earlier instance with this name is replaced; very long names lack the ids that would distinguish them. Mirrors
    kuberuntime_container.go, v1.36, startContainer. Raises OSError.
    """
    link = _link(log_dir, log, container, container_id)
    if link is None or not log.exists() or _target(link) == log:
        return
    link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if link.is_symlink():
        link.unlink(missing_ok=True)
    link.symlink_to(log)


def remove_log_link(log_dir: Path, log: Path, container: str, container_id: str) -> None:
    """Remove the link to a container's log, if it still leads to that log (removeContainerLog). Raises OSError."""
    link = _link(log_dir, log, container, container_id)
    if link is not None and _target(link) == log:
        link.unlink(missing_ok=True)


def remove_pod_links(logs: Path, namespace: str, pod: str) -> None:
    """Remove every link into `logs`, a pod's log directory; safe to repeat. Raises OSError."""
    begins = f"{pod}_{namespace}_"[:_LONGEST]
    for link, target in _links(links_directory(logs.parent), begins):
        if target.is_relative_to(logs):
            link.unlink(missing_ok=True)


def remove_all_links(log_dir: Path) -> None:
    """Remove every link to a log below `log_dir`, and then the links' directory if it is empty. Raises OSError."""
    directory = links_directory(log_dir)
    for link, target in _links(directory):
        if target.is_relative_to(log_dir):
            link.unlink(missing_ok=True)
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


class Dangling(NamedTuple):
    """A link to a log that does not exist."""

    link: Path
    container_id: str
    """The container's id in the link's name, where a part may be missing."""
    logs: Path
    """The pod's log directory, which may be gone too."""


def dangling_links(log_dir: Path) -> tuple[Dangling, ...]:
    """Return the links to missing logs of pods below `log_dir`. Raises OSError."""
    return tuple(
        Dangling(link, link.name.removesuffix(_SUFFIX).rpartition("-")[2], target.parents[1])
        for link, target in _links(links_directory(log_dir))
        if target.is_relative_to(log_dir) and len(target.relative_to(log_dir).parts) == 3 and not target.exists()
    )


def _link(log_dir: Path, log: Path, container: str, container_id: str) -> Path | None:
    parts = log.relative_to(log_dir).parts if log.is_relative_to(log_dir) else ()
    if len(parts) != 3 or ".." in parts or parts[0].count("_") < 2:
        return None
    namespace, pod, _ = parts[0].split("_", 2)
    return links_directory(log_dir) / f"{f'{pod}_{namespace}_{container}-{container_id}'[:_LONGEST]}{_SUFFIX}"


def _links(directory: Path, begins: str = "") -> Iterator[tuple[Path, Path]]:
    """Yield each link in the directory whose name starts with `begins`, and its target."""
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name.startswith(begins) and name.endswith(_SUFFIX):
            target = _target(directory / name)
            if target is not None:
                yield directory / name, target


def _target(link: Path) -> Path | None:
    """Return a link's target, normalized; None if nothing has that name, or if it is not a link."""
    try:
        return Path(os.path.normpath(link.readlink()))
    except OSError:
        return None
