"""Answers ``/syncpod``, for ``kubectl syncpod``, with ``syncpod``'s output about one pod. A kubelet lacks this path.

Clients need the verb `get` of `nodes/proxy`, which also permits them to read all containers' logs. Each command is a
separate process, which only reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from typing import Final

from syncpod.agent.own_commands import start_command
from syncpod.api.messages import JSON, Answer, Request, in_one_part
from syncpod.api.source import PodSource
from syncpod.api.statuses import ApiError
from syncpod.kubernetes.plugin_commands import CommandInvalid, answer, words

MOST: Final = 4
"""The most concurrent commands: each takes a process with 60 MiB for a second."""
_LARGEST: Final = 16 << 20
"""The most bytes of one command's output."""
_BLOCK: Final = 64 << 10


class PodCommands:
    """The commands of one node. All methods belong to one event loop."""

    def __init__(self, environment: Mapping[str, str], source: PodSource) -> None:
        """Run commands with `environment`, which names the node's own server and state directory.

        `source` has the UIDs of the node's pods.
        """
        self._environment, self._source, self._running = dict(environment), source, 0

    async def answer(self, asked: Request, command: str, namespace: str, pod: str) -> Answer:
        """Return a command's output about a pod. Raises ApiError."""
        try:
            line = words(command, namespace, pod, asked.query)
        except CommandInvalid as wrong:
            raise ApiError(400, str(wrong)) from None
        if self._running >= MOST:
            raise ApiError(429, f"this node already runs {MOST} such commands: try again")
        self._running += 1
        try:
            code, out, err = await self._run(line)
        except OSError as error:
            raise ApiError(500, f"this node cannot run the command: {error.strerror}") from None
        finally:
            self._running -= 1
        uids = [one.reads.pod()["metadata"].get("uid") for one in self._source.known_pods(namespace, [pod])]
        return in_one_part(json.dumps(answer(code, out, err, str(next(iter(uids), None) or ""))).encode(), JSON)

    async def _run(self, line: tuple[str, ...]) -> tuple[int, bytes, bytes]:
        """Run one command to its end; if cancelled, kill it. Raises OSError, and ApiError if its output is too long."""
        pipe = asyncio.subprocess.PIPE
        process = await start_command(line, self._environment, asyncio.subprocess.DEVNULL, pipe, pipe)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            out, err = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
        finally:
            if process.returncode is None:  # it leads its process group, and is not reaped yet
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return (code if code >= 0 else 128 - code), out, err


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Return a command's whole output. Raises ApiError if it is too long."""
    parts, size = [], 0
    while part := await stream.read(_BLOCK):
        parts.append(part)
        size += len(part)
        if size > _LARGEST:
            raise ApiError(500, f"the command prints more than {_LARGEST >> 20} MiB")
    return b"".join(parts)
