"""Deletes earlier values of changed or deleted Secrets, once all pods that may have received them are gone.

Until then such a value may appear in a log or in an error of the runtime, and the node redacts it
(`syncpod.redaction`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from syncpod.agent.record_cache import RecordCache
from syncpod.node.pod_records import PodRecord
from syncpod.node.secret_values import known_secret_values
from syncpod.objects import FormerSecret, ObjectRef, ObjectStore, references
from syncpod.redaction import Redactor
from syncpod.translation.context import NodeContext

LOOK_SECONDS = 5.0


class FormerSecrets:
    """The former Secrets of one node. All methods belong to one event loop."""

    def __init__(self, node: NodeContext, store: ObjectStore, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._uses = RecordCache(node, _use)
        self._had: dict[Path, frozenset[str]] = {}
        """By file of a former Secret: UIDs of the pods that may have received its values. Pods made later have not."""

    async def run(self) -> None:
        """Check periodically until cancelled. Raises OSError."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Delete the former Secrets that no pod of the node still has. Raises OSError."""
        kept = await asyncio.to_thread(self._store.former)
        if not kept:
            return
        uses = await asyncio.to_thread(self._uses.read)
        had = {}
        for former, _ in kept:
            using = frozenset(uid for uid, refs in uses.items() if former.ref in refs)
            had[former.file] = self._had.get(former.file, using) & using
        self._had = had
        if over := [former for former, _ in kept if not had[former.file]]:
            await asyncio.to_thread(self._forget, over)

    def _forget(self, over: list[FormerSecret]) -> None:
        # Read first: a value that is added later is not in `known`, so it stays, even if the store does not have the
        # value yet.
        known = self._redactor.known()
        for former in over:
            former.file.unlink(missing_ok=True)
        self._redactor.forget(known - known_secret_values(self._store))


def _use(record: PodRecord) -> frozenset[ObjectRef] | None:
    """Return the Secrets that a pod refers to; None if it refers to none."""
    return frozenset(each.ref for each in references(record.pod) if each.ref.kind == "Secret") or None
