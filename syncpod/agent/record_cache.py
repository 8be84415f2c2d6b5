"""Caches what is derived from the pods' records on disk, and derives it again only when a record changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from syncpod.node.pod_records import RECORD_NAME, PodRecord, read_pod_record
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, pods_directory

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Entry(Generic[_T]):
    version: tuple[int, int, int]
    """Inode, time of modification and size of the record, which identify a version of it."""
    derived: _T | None


class RecordCache(Generic[_T]):
    """Caches what `derive` returns for each pod's record; None is cached too, and omitted from results.

    An unchanged record costs one stat.
    """

    def __init__(self, node: NodeContext, derive: Callable[[PodRecord], _T | None]) -> None:
        self._node = node
        self._derive = derive
        self._entries: dict[str, _Entry[_T]] = {}

    def read(self) -> dict[str, _T]:
        """Return the derived values by pod UID. Blocks; one call at a time. Raises OSError."""
        entries = {uid: self._entry(uid, version) for uid, version in self._versions()}
        self._entries = entries
        return {uid: entry.derived for uid, entry in entries.items() if entry.derived is not None}

    def _entry(self, uid: str, version: tuple[int, int, int]) -> _Entry[_T]:
        known = self._entries.get(uid)
        if known is not None and known.version == version:
            return known
        try:
            record = read_pod_record(self._node, uid)
        except UnsafeName:
            record = None
        return _Entry(version, self._derive(record) if record is not None else None)

    def _versions(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        try:
            with os.scandir(pods_directory(self._node)) as pods:
                for pod in pods:
                    try:
                        stat = os.stat(f"{pod.path}/{RECORD_NAME}", follow_symlinks=False)  # noqa: PTH116  # 2,000 times
                    except OSError:
                        continue
                    yield pod.name, (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        except FileNotFoundError:
            return
