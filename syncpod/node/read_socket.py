"""The socket on which a node's worker answers queries about its pods: its address, and the client.

A request is one line of JSON: ``{"query": "pod", "args": [], "workflows": ["pod/default/web"]}``. The worker says at
once that it has heard it, with a line ``{"heard": true}``. The answer is one line for each of these workflows that the
worker knows: ``{"workflow": …, "run": …, "answer": …}``, or with an ``"error"``. Then the worker closes the connection.
The queries are those of the pod's workflow, and `steps`, `described`, `journal` and `report`, which the worker answers
itself.

Instead of ``"workflows"``, a request may have ``"pods": [["default", "web"]]``. Or it may have
``"open": {"namespace": "default", "names": ["web"]}`` (no names = all, null = all namespaces): the worker asks its
server which of these pods are open now, and answers for all of them, or for none. A last line ``{"all": true}`` says
that it was all: a pod that is missing then does not exist. With ``"recorded": true`` in it, a worker that has just
begun also has lines ``{"workflow": …, "run": …, "recorded": …, "status": …, "restarts": …}`` for pods to which it has
not come yet: what the server has recorded last, the Pod and two columns of ``get pods``. Pods that run without a
workflow are answered for too; the Pod is marked then (:mod:`syncpod.node.orphan_mark`).

Nobody but the node's user may connect: the socket has mode 0600, in a directory of mode 0700.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio

STEPS: Final = "steps"
"""The query that the worker itself answers: what the pod's steps do that are under way, a list of JSON objects with
`uid`, `step`, `container` and `doing`."""
DESCRIBED: Final = "described"
"""The query that returns `pod`, `plan` and `events` at once, with the names of the steps `under_way` and the `run`."""
JOURNAL: Final = "journal"
"""The request to write to the node's journal what the worker has heard so far. The answer is :data:`ALL_TOLD`."""
REPORT: Final = "report"
"""The request to look for orphans now, and to write the node's report. The answer is :data:`ALL_TOLD`."""
SOCKET_NAME: Final = "reads.sock"
"""The socket's name in the node's state directory."""
LINE_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of a line, in either direction: a pod has at most 512 KiB, its answer some more."""
PATIENCE_SECONDS: Final = 2.0
"""How long the worker may take to hear a request, and a reader to take a part of the answer."""
ANSWER_SECONDS: Final = 10.0
"""How long a worker that has heard a request may take for each line. Whoever gives it up asks the server, and thus the
same worker once more, pod by pod: of a busy node with a thousand pods that takes ten times as long."""
HEARD: Final = b'{"heard":true}\n'
"""The first line of each answer."""
ALL_TOLD: Final = b'{"all":true}\n'
"""The last line of an answer about what is open, and the only one about the journal."""


@dataclass(frozen=True)
class PublishedAnswer:
    """A worker's answer about one workflow."""

    run_id: str
    """The run that has published it."""
    answer: Any
    """What the workflow's query would have returned."""


@contextlib.contextmanager
def socket_address(state_dir: Path) -> Iterator[str]:
    """Yield an address of the socket that is short enough, however deep its directory lies. Raises OSError.

    An address of a unix socket has at most 107 bytes.
    """
    directory = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET_NAME}"
    finally:
        os.close(directory)


def ask_open(state_dir: Path, query: str, namespace: str | None, names: Sequence[str]) -> list[Any] | None:
    """Return the answers of the open pods of a namespace, None = of all; with `names`, of these pods alone.

    Returns None if the worker cannot say. It blocks, so that a short command need not import asyncio.
    """
    told = ask_open_by_workflow(state_dir, query, namespace, names)
    return None if told is None else list(told.values())


def ask_open_by_workflow(
    state_dir: Path, query: str, namespace: str | None, names: Sequence[str]
) -> dict[str, Any] | None:
    """Return the same by workflow id."""
    answers: dict[str, Any] = {}
    try:
        for line in _lines(state_dir, {"query": query, "open": {"namespace": namespace, "names": list(names)}}):
            if line == ALL_TOLD:
                return answers
            said = json.loads(line)
            answers[said["workflow"]] = said["answer"]
    except (OSError, ValueError, KeyError):  # a worker of another version, or one that is too busy
        pass
    return None


def ask_listed(
    state_dir: Path, namespace: str | None, names: Sequence[str]
) -> list[tuple[dict[str, Any], dict[str, Any] | None]] | None:
    """Return the open pods as :func:`ask_open` does, and those to which the worker has not come, as they were recorded.

    Each of the latter comes with its columns `status` and `restarts`.
    """
    found: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
    asked = {"query": "pod", "open": {"namespace": namespace, "names": list(names), "recorded": True}}
    try:
        for line in _lines(state_dir, asked):
            if line == ALL_TOLD:
                return found
            said = json.loads(line)
            is_recorded = "recorded" in said
            columns = {each: said[each] for each in ("status", "restarts")} if is_recorded else None
            found.append((said["recorded" if is_recorded else "answer"], columns))
    except (OSError, ValueError, KeyError):
        pass
    return None


def ask_known(state_dir: Path, query: str, pods: Collection[tuple[str, str]]) -> list[Any]:
    """Return the worker's answers about pods that it knows, by namespace and name. It blocks, and asks no server."""
    answers: list[Any] = []
    with contextlib.suppress(OSError, ValueError, KeyError):  # what has been told so far is true
        for line in _lines(state_dir, {"query": query, "pods": list(pods)}):
            said = json.loads(line)
            if "error" not in said:
                answers.append(said["answer"])
    return answers


def settle_journal(state_dir: Path) -> None:
    """Return once the worker of this node, if it has one, has written to its journal what it has heard so far.

    Without this the journal is up to a second behind what `get` and `wait` have just said. It blocks, for no longer
    than :data:`ANSWER_SECONDS`; if the worker does not answer, what is in the journal has to do.
    """
    _have_written(state_dir, JOURNAL)


def refresh_report(state_dir: Path) -> None:
    """Return once the worker of this node, if it has one, has looked for orphans anew, and written the node's report.

    Without this the report is up to a minute old. It blocks no longer than `settle_journal` does.
    """
    _have_written(state_dir, REPORT)


def _have_written(state_dir: Path, request: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        for _ in _lines(state_dir, {"query": request, "workflows": []}):
            pass


def _lines(state_dir: Path, asked: dict[str, Any]) -> Iterator[bytes]:
    """Yield the lines of a worker's answer, none if it has not heard the request. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        with socket_address(state_dir) as address:
            connection.connect(address)
        connection.sendall(json.dumps({"args": [], **asked}).encode() + b"\n")
        with connection.makefile("rb") as lines:
            if next(lines, b"") != HEARD:
                return
            connection.settimeout(ANSWER_SECONDS)
            yield from lines


async def ask_node(
    state_dir: Path, query: str, args: list[Any], workflows: Collection[str]
) -> dict[str, PublishedAnswer]:
    """Return the answers of the worker of the node with this state directory, by workflow id.

    Returns {} if no worker runs, if it belongs to another user, or if it is too busy. A workflow is missing if the
    worker does not know it, or if the workflow has no such query.
    """
    told: dict[str, PublishedAnswer] = {}
    try:
        reader, writer = await _connect(state_dir)
    except (OSError, TimeoutError):
        return told
    try:
        writer.write(json.dumps({"query": query, "args": args, "workflows": list(workflows)}).encode() + b"\n")
        if await _next_line(reader, PATIENCE_SECONDS) != HEARD:
            return told
        while line := await _next_line(reader, ANSWER_SECONDS):
            said = json.loads(line)
            if "error" not in said:
                told[said["workflow"]] = PublishedAnswer(said["run"], said["answer"])
    except (OSError, TimeoutError, ValueError, KeyError):
        pass  # what has been told so far is true; the rest is asked elsewhere
    finally:
        writer.close()
    return told


async def _next_line(reader: asyncio.StreamReader, patience: float) -> bytes:
    """Return the worker's next line, b"" after the last. Raises OSError, TimeoutError."""
    import asyncio

    async with asyncio.timeout(patience):
        return await reader.readline()


async def _connect(state_dir: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the worker. Raises OSError, TimeoutError."""
    import asyncio

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        with socket_address(state_dir) as address:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await loop.sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return await asyncio.open_unix_connection(sock=connection, limit=LINE_LIMIT)  # which owns it from here on
