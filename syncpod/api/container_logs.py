"""``/containerLogs``: the log of a container, as `kubectl logs` requests it.

Mirrors getContainerLogs (pkg/kubelet/server/server.go, v1.36) and GetKubeletContainerLogs. Difference: if the runtime
has removed the container, its log is still read, as long as the file exists.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from syncpod.api.messages import Answer, Request
from syncpod.api.pods import named_pod
from syncpod.api.source import PodSource
from syncpod.api.statuses import ApiError
from syncpod.api.wanted_log import LoggedInstance, WantedLog, instance, require_container, wanted_log
from syncpod.cri.errors import CriError, NotFound
from syncpod.cri.port import CriRuntime
from syncpod.node.log_lines import LogText
from syncpod.node.log_reading import LogUnreadable, read_blocks
from syncpod.node.pod_threads import DiskWork, PodThreads
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import UnsafeName, pod_log_directory

_T = TypeVar("_T")


class ContainerLogs:
    """The logs of one node's containers."""

    def __init__(self, source: PodSource, cri: CriRuntime, node: NodeContext, threads: PodThreads) -> None:
        """Find pods in `source`, and logs at the paths that `cri` reports, else below `node`'s directory of logs.

        Logs are read in `threads`, since a disk may hang.
        """
        self._source, self._cri, self._node, self._threads = source, cri, node, threads

    async def answer(self, asked: Request, namespace: str, name: str, container: str) -> Answer:
        """Return the requested log, whose parts are sent as they are read. Raises ApiError."""
        wanted = wanted_log(asked, datetime.now(UTC))
        pod = await named_pod(self._source, namespace, name, f'pod "{name}" does not exist')
        require_container(pod, container)
        found = instance(pod, container, previous=wanted.previous)
        path = await self._path(pod, container, found)
        return Answer(self._text(path, found, wanted, pod["metadata"]["uid"]), 200, {"Content-Type": "text/plain"})

    async def _path(self, pod: dict[str, Any], container: str, found: LoggedInstance) -> Path:
        """Return where the log of an instance is. Raises ApiError."""
        sentence = f"unable to retrieve container logs for {found.id}"
        try:
            path = (await self._cri.container_status(_raw(found.id))).container.log_path
            if path:
                return Path(path)
        except NotFound:
            pass
        except CriError as error:
            raise ApiError(400, f"{sentence}: {error.message or error.code}") from None
        meta = pod["metadata"]
        try:
            directory = pod_log_directory(self._node, meta["namespace"], meta["name"], meta["uid"]) / container
        except UnsafeName:
            raise ApiError(400, sentence) from None
        path_here = directory / f"{found.restart}.log"
        if not await self._threads.run(meta["uid"], DiskWork.SHOW_LOGS, path_here.exists):
            raise ApiError(400, sentence)
        return path_here

    async def _text(self, path: Path, found: LoggedInstance, wanted: WantedLog, uid: str) -> AsyncIterator[bytes]:
        """Yield the log's text. The first part is empty, so that a follower receives headers before the first line."""

        async def runs() -> bool:
            try:
                return (await self._cri.container_status(_raw(found.id))).container.state == "running"
            except CriError:
                return False

        async def do(work: Callable[[], _T], /) -> _T:
            return await self._threads.run(uid, DiskWork.SHOW_LOGS, work)

        text = LogText(
            timestamps=wanted.timestamps, since=wanted.since, limit_bytes=wanted.limit_bytes, stream=wanted.stream
        )
        blocks = read_blocks(path, tail=wanted.tail, runs=runs if wanted.follow else None, do=do)
        yield b""
        try:
            async for block in blocks:
                yield await do(partial(text.feed, block))
                if text.full:
                    return
            yield text.flush()
        except FileNotFoundError:
            yield f"failed to open log file {str(path)!r}: no such file or directory\n".encode()
        except (LogUnreadable, PermissionError) as error:
            yield f"failed to read log file {str(path)!r}: {getattr(error, 'strerror', None) or error}\n".encode()
        finally:
            await blocks.aclose()


def _raw(container_id: str) -> str:
    """Return an id without the scheme of ``containerd://…``."""
    return container_id.rpartition("://")[2]
