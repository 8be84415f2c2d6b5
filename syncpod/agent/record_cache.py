"""Caches values derived from the pods' records on disk. A value is derived again only when its record has changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from syncpod.node.pod_records import RECORD_NAME, PodRecord, read_pod_record, records_version
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, pods_directory

_T = TypeVar("_T")

LOOK_SECONDS: Final = 300.0
"""Seconds until the records are checked even without a sign of a change: one may have been edited by hand."""


@dataclass(frozen=True)
class _Entry(Generic[_T]):
    version: tuple[int, int, int]
    """Inode, modification time and size of the record file."""
    derived: _T | None


class RecordCache(Generic[_T]):
    """Caches the result of `derive` for each pod's record. A None is cached too, but `read` leaves it out.

    While no record of the node has changed, a read makes one stat call. Otherwise it makes one for each record.
    """

    def __init__(self, node: NodeContext, derive: Callable[[PodRecord], _T | None]) -> None:
        self._node = node
        self._derive = derive
        self._alone = threading.Lock()
        self._entries: dict[str, _Entry[_T]] = {}
        self._derived: dict[str, _T] = {}
        self._version: int | None = None
        """The version of all records together at the last check."""
        self._look_at = 0.0
        """Monotonic time at which the records are checked even if their version is unchanged."""

    def read(self) -> dict[str, _T]:
        """Return the derived values by pod UID. Blocks; any thread may call it. Raises OSError."""
        with self._alone:
            version = records_version(self._node)  # read first, so that a record that changes meanwhile is read again
            if version is None or version != self._version or time.monotonic() >= self._look_at:
                self._entries = {uid: self._entry(uid, each) for uid, each in self._versions()}
                self._derived = {uid: each.derived for uid, each in self._entries.items() if each.derived is not None}
                self._version, self._look_at = version, time.monotonic() + LOOK_SECONDS
            return self._derived.copy()

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
