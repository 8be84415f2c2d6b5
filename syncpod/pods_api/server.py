"""Serves the kubelet's Pods API on a unix socket, read-only.

Mirrors pkg/kubelet/apis/pods/server.go, v1.37: a watcher that does not keep up is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from protos.pods.v1alpha1 import api_pb2, api_pb2_grpc
from syncpod.grpc_server import serving_at
from syncpod.pods_api.pod_bytes import pod_bytes

WATCHERS: Final = 100
"""Maximum number of concurrent calls, nearly all of which are watches. A kubelet has no such limit."""
EVENTS: Final = 100
"""Maximum number of events queued for a watcher, as in the kubelet. A watcher that needs more is dropped."""
_NOT_READY: Final = "Kubelet is initializing"

Document = Mapping[str, Any]
"""A v1 Pod with its status, as JSON."""


@dataclass(frozen=True)
class ServedNode:
    """The node whose pods are served."""

    pods: Callable[[], Iterable[Document]]
    is_ready: Callable[[], Awaitable[bool]]
    """Returns whether every source of pods has listed its pods. Before that, no request is answered."""
    takes: Callable[[], bool]
    """Returns whether the rate limit admits one more request now."""
    dropped: Callable[[], None]
    """Called when a watcher is dropped."""


class PodNews:
    """Passes changes of the node's pods on to the watchers. All methods must be called in one event loop.

    If a pod changes again before its change is passed on, only the newest change is passed on.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Callable[[], Document] | None, bytes]] = {}
        """By UID: a function that makes the pod's newest document (None = the pod is gone, and has no other change),
        and the last document of a pod that is gone (b"" = the pod exists)."""
        self._came = asyncio.Event()
        self._watchers: set[_Watcher] = set()

    def changed(self, uid: str, document: Callable[[], Document]) -> None:
        """Queue a pod's change for the watchers; `document` makes its newest document."""
        if self._watchers:
            self._waiting[uid] = (document, b"")
            self._came.set()

    def gone(self, uid: str, namespace: str, name: str) -> None:
        """Queue a pod's deletion for the watchers."""
        if self._watchers:
            last = pod_bytes({"metadata": {"namespace": namespace, "name": name, "uid": uid}})
            self._waiting[uid] = (self._waiting.get(uid, (None, b""))[0], last)
            self._came.set()

    async def run(self) -> None:
        """Pass changes on until cancelled."""
        while True:
            await self._came.wait()
            self._came.clear()
            while self._waiting:
                uid = next(iter(self._waiting))
                document, last = self._waiting.pop(uid)
                if document is not None:
                    self._offer(_Event(uid, pod_bytes(document()), is_last=False))
                if last:
                    self._offer(_Event(uid, last, is_last=True))
                await asyncio.sleep(0)  # let other tasks run, however many pods have changed

    def _offer(self, event: _Event) -> None:
        for watcher in [each for each in self._watchers if not each.offer(event)]:
            self._watchers.discard(watcher)

    def join(self, watcher: _Watcher) -> None:
        """Send a watcher all changes from now on."""
        self._watchers.add(watcher)

    def leave(self, watcher: _Watcher) -> None:
        """Send a watcher no more changes."""
        self._watchers.discard(watcher)


@dataclass(frozen=True)
class _Event:
    uid: str
    pod: bytes
    is_last: bool


class _Watcher:
    """A watcher, with a queue of the events that it has not been sent yet."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[_Event | None] = asyncio.Queue(EVENTS + 1)
        self._is_dropped = False

    def offer(self, event: _Event) -> bool:
        """Queue an event and return True. If the queue is full, drop the watcher and return False."""
        if self._queue.qsize() >= EVENTS:
            self._is_dropped = True
            self._queue.put_nowait(None)
        else:
            self._queue.put_nowait(event)
        return not self._is_dropped

    async def next(self) -> _Event | None:
        """Return the next event, once there is one; None = the watcher was dropped."""
        return await self._queue.get()


@asynccontextmanager
async def serving(socket: Path, node: ServedNode, news: PodNews) -> AsyncIterator[None]:
    """Serve at `socket`, with mode 0600, until the block is left. Raises OSError."""
    server = grpc.aio.server(maximum_concurrent_rpcs=WATCHERS)
    api_pb2_grpc.add_PodsServicer_to_server(_Pods(node, news), server)
    async with serving_at(socket, server):
        yield


class _Pods(api_pb2_grpc.PodsServicer):
    def __init__(self, node: ServedNode, news: PodNews) -> None:
        self._node, self._news = node, news

    async def ListPods(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return all pods, by UID."""
        await self._take(context)
        return api_pb2.ListPodsResponse(pods=[pod async for _, pod in self._all()])

    async def GetPod(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return one pod."""
        await self._take(context)
        for pod in self._node.pods():
            if _uid(pod) == request.podUID:
                return api_pb2.GetPodResponse(pod=pod_bytes(pod))
        return await context.abort(grpc.StatusCode.NOT_FOUND, f"pod with UID {request.podUID} not found")

    async def WatchPods(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Yield all pods, and then their changes."""
        await self._take(context)
        watcher, known = _Watcher(), set[str]()
        self._news.join(watcher)
        try:
            async for uid, pod in self._all():
                known.add(uid)
                yield api_pb2.WatchPodsEvent(type=api_pb2.ADDED, pod=pod)
            yield api_pb2.WatchPodsEvent(type=api_pb2.INITIAL_SYNC_COMPLETE)
            while (event := await watcher.next()) is not None:
                if event.is_last and event.uid in known:
                    known.discard(event.uid)
                    yield api_pb2.WatchPodsEvent(type=api_pb2.DELETED, pod=event.pod)
                elif not event.is_last:
                    kind = api_pb2.MODIFIED if event.uid in known else api_pb2.ADDED
                    known.add(event.uid)
                    yield api_pb2.WatchPodsEvent(type=kind, pod=event.pod)
            self._node.dropped()
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "watch client channel closed")
        finally:
            self._news.leave(watcher)

    async def _all(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the UID and the bytes of each pod. Other tasks may run in between."""
        for pod in sorted(self._node.pods(), key=_uid):
            yield _uid(pod), pod_bytes(pod)
            await asyncio.sleep(0)

    async def _take(self, context: Any) -> None:
        if not self._node.takes():
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        if not await self._node.is_ready():
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, _NOT_READY)


def _uid(pod: Document) -> str:
    return str(pod.get("metadata", {}).get("uid") or "")
