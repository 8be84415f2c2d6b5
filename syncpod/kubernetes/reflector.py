"""Follows a list of an API server's objects: lists it, watches it, and lists it again when the watch has ended.

Mirrors client-go's reflector (tools/cache/reflector.go, v0.36). Differences:

- A list is a consistent read. The kubelet's first list may come from a stale cache; a pod that is missing there would
  be ended on the node.
- After each watch there is a new list, even if the server itself ended the watch after five to ten minutes. The list
  makes up for lost events, and for a restore of the cluster's database: the restored versions are lower, and a watch
  that continued from its own version would yield no events until they have grown past it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from secrets import SystemRandom
from typing import Any, Final, NamedTuple

from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.json_documents import mapping

log = logging.getLogger(__name__)

LIST_SECONDS: Final = 60.0
BEGIN_SECONDS: Final = 10.0
"""Maximum seconds until a watch has begun."""
SHORTEST_WATCH: Final = 300
"""The server ends a watch after a random time from this many seconds to twice as many, so that the watches do not all
end at once."""
BACKOFF_SECONDS: Final = (0.8, 30.0)
"""The first pause after a failure, and the longest, in seconds. Each is multiplied by a random number from 1 to 2."""
CALM_SECONDS: Final = 120.0
"""After this many seconds without a failure, the next pause is the first one again."""
_GONE: Final = 410
_CHANCE: Final = SystemRandom().random


class ObjectKey(NamedTuple):
    """Namespace and name of an object."""

    namespace: str
    name: str


class NotAList(Exception):
    """The server's answer is no list of the requested kind; the text is a clause."""


@dataclass
class Lists:
    """Counts the lists that were requested."""

    begun: int = 0
    """The number of the list that was requested last."""
    come: int = 0
    """The number of the list that has arrived last."""

    def outdates(self, begun: int) -> bool:
        """Return whether the newest list is newer than an answer; `begun` is this counter's value at that answer.

        Versions cannot show this: they go back if the cluster's database is restored from a backup.
        """
        return self.come > begun


class Reflector:
    """Follows one list of objects. All methods belong to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        path: str,
        kind: str,
        *,
        params: Mapping[str, str] | None = None,
        level: int = logging.INFO,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _CHANCE,
    ) -> None:
        """Follow the objects at a path, such as ``/api/v1/pods``, of a kind, such as ``Pod``.

        Successes are logged at `level`. Failures are logged at `level` if it is below `INFO`, else as warnings. `clock`
        is steady, in seconds; `chance` returns a random number from 0 to 1.
        """
        self._client, self._path, self._kind, self._level = client, path, kind, level
        self._params, self._clock, self._chance = dict(params or {}), clock, chance
        self.objects: Mapping[ObjectKey, Mapping[str, Any]] = {}
        """The newest version of each object; empty before `is_complete`. Replaced and never changed in place."""
        self.is_complete = False
        """True once a whole list has arrived: before that, an object that is missing in `objects` may exist."""
        self.lists = Lists()
        self.news = asyncio.Event()
        """Set when `objects`, `is_complete` or `trouble` has changed."""
        self._newest = 0
        """The newest version that the server has sent, as a number."""
        self.trouble = ""
        """Why the list cannot be followed now, as a clause; "" if it can."""

    async def run(self) -> None:
        """Follow the list until cancelled."""
        backoff, is_watched, has_watch_failed = Backoff(self._clock, self._chance), False, False
        error: ClusterError | Unreachable | NotAList
        while True:
            is_watched = False
            try:
                version = await self._list()
                if not has_watch_failed:  # otherwise each list would clear the trouble of a watch that fails again
                    self._log_trouble("")
                is_watched = True
                await self._watch(version)
            except (ClusterError, Unreachable, NotAList) as raised:
                error, has_watch_failed = raised, is_watched
            else:
                has_watch_failed = False
                continue
            if is_expired(error):
                continue
            self._log_trouble(str(error))
            await asyncio.sleep(backoff.next(error))

    def _log_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            if trouble:
                level = logging.WARNING if self._level >= logging.INFO else self._level
                log.log(level, "%s of the cluster cannot be followed: %s", self._path, trouble)
            else:
                log.log(self._level, "%s of the cluster is followed", self._path)
            self.news.set()

    async def _list(self) -> str:
        """Read the whole list, and return its version. A list that is cut off or invalid changes nothing."""
        self.lists.begun += 1
        answer = await self._client.ask("GET", self._path, params=self._params, seconds=LIST_SECONDS)
        version = _version(answer)
        items = answer.get("items")
        if answer.get("kind") != f"{self._kind}List" or not version or not isinstance(items, list | type(None)):
            raise NotAList(f"the answer is no {self._kind}List")
        # The items of a list have no kind of their own.
        named = [{"apiVersion": "v1", "kind": self._kind, **each} for each in items or () if isinstance(each, Mapping)]
        self.objects = {key_of(each): each for each in named}
        self.is_complete = True
        self.lists.come = self.lists.begun
        self._note_age(version)
        self.news.set()
        return version

    def _note_age(self, version: str) -> None:
        """Log a warning if the server's versions have gone back."""
        number = int(version) if version.isdecimal() else 0
        if number < self._newest:
            level = logging.WARNING if self._level >= logging.INFO else self._level
            log.log(
                level,
                "%s of the cluster has version %d, after %d: the cluster's database was restored from a backup",
                self._path,
                number,
                self._newest,
            )
        self._newest = number

    async def _watch(self, version: str) -> None:
        """Apply events from `version` on until the server ends the watch. Raises ClusterError, Unreachable."""
        seconds = int(SHORTEST_WATCH * (1 + self._chance()))
        params = {
            **self._params,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        begun = self._clock()
        try:
            async with (
                asyncio.timeout(seconds + LIST_SECONDS),
                self._client.stream(self._path, params, seconds=BEGIN_SECONDS) as events,
            ):
                async for event in events:
                    self._log_trouble("")
                    self._take(event)
        except TimeoutError:
            raise Unreachable("the watch has not ended in time") from None
        if self._clock() - begun < 1:  # the server, or a proxy before it, closes each watch at once
            raise Unreachable("the watch ended at once")

    def _take(self, event: Mapping[str, Any]) -> None:
        """Apply one event. Raises Unreachable for an event without an object."""
        kind, changed = event.get("type"), event.get("object")
        if not isinstance(changed, Mapping):
            raise Unreachable(f"an event of type {kind!r} has no object")
        if kind in ("ADDED", "MODIFIED"):
            self.objects = {**self.objects, key_of(changed): changed}
        elif kind == "DELETED":
            gone = key_of(changed)
            self.objects = {key: each for key, each in self.objects.items() if key != gone}
        if kind != "BOOKMARK":
            self.news.set()
        self._newest = max(self._newest, version_of(changed))


class Backoff:
    """The pauses after failures, as client-go's: 0.8 s, doubled up to 30 s, each times a random number from 1 to 2."""

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float]) -> None:
        """Begin without a failure. `clock` is steady, in seconds; `chance` returns a random number from 0 to 1."""
        self._clock, self._chance = clock, chance
        self._next, self._last = BACKOFF_SECONDS[0], clock()

    def next(self, error: Exception) -> float:
        """Return how many seconds to wait after a failure: at least as many as the server requests."""
        now = self._clock()
        if now - self._last > CALM_SECONDS:
            self._next = BACKOFF_SECONDS[0]
        wait = self._next * (1 + self._chance())
        self._last, self._next = now + wait, min(2 * self._next, BACKOFF_SECONDS[1])
        asked = error.retry_after if isinstance(error, ClusterError) else None
        return max(wait, asked or 0.0)


def is_expired(error: Exception) -> bool:
    """Return whether a watch cannot continue from its version, since the server no longer has it."""
    return isinstance(error, ClusterError) and (error.code == _GONE or error.reason in ("Expired", "Gone"))


def version_of(document: Mapping[str, Any]) -> int:
    """Return an object's version, which an API server of v1.35 and later orders; 0 if it is no number."""
    text = _version(document)
    return int(text) if text.isdecimal() else 0


def key_of(document: Mapping[str, Any]) -> ObjectKey:
    """Return an object's namespace and name; "" for each that it lacks."""
    found = mapping(document.get("metadata"))
    return ObjectKey(str(found.get("namespace") or ""), str(found.get("name") or ""))


def _version(document: Mapping[str, Any]) -> str:
    return str(mapping(document.get("metadata")).get("resourceVersion") or "")
