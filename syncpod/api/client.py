"""The client of the API on a worker's unix socket. It blocks, and imports little, so that a short command stays short.

Nobody but the node's user may connect: the socket has mode 0600, in a directory of mode 0700. A request says
``Expect: 100-continue``: a worker that has read it says so at once, and is then given more time for its answer.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from syncpod.api.messages import JSON, warnings_in

SOCKET_NAME: Final = "api.sock"
"""The socket's name in the node's state directory."""
BODY_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of a request's body: a pod has at most 512 KiB."""
PATIENCE_SECONDS: Final = 2.0
"""How long the worker may take to read a request, and a reader to take a part of the answer."""
ANSWER_SECONDS: Final = 10.0
"""How long a worker that has read a request may take for each part of its answer. Whoever gives it up asks the server,
and thus the same worker once more, pod by pod: of a busy node with a thousand pods that takes ten times as long."""
NOT_FOUND: Final = 404
OURS: Final = "/apis/syncpod.dev/v1"
_NAMED: Final = 50
"""At most so many pods are named in a request; of more, all are asked for."""


class Reply(NamedTuple):
    """The worker's answer."""

    code: int
    document: Any
    """The body's JSON."""
    warnings: tuple[str, ...] = ()
    """Sentences about the answer."""


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


class _Connection(http.client.HTTPConnection):
    """A connection to the worker of a node."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._state_dir = state_dir

    def connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock = connection
        connection.settimeout(PATIENCE_SECONDS)
        with socket_address(self._state_dir) as address:
            connection.connect(address)


def ask(
    state_dir: Path,
    path: str,
    query: Sequence[tuple[str, str]] = (),
    *,
    method: str = "GET",
    accept: str = JSON,
    document: Any = None,
) -> Reply | None:
    """Return the answer of the worker of this state directory; None if there is none, or it is too busy.

    An answer that breaks off, or is no JSON, is none.
    """
    target = quote(path) + (f"?{urlencode(query)}" if query else "")
    body = b"" if document is None else json.dumps(document, ensure_ascii=False).encode()
    connection = _Connection(state_dir)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        headers = {"Accept": accept, "Expect": "100-continue", "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        if not select.select([connection.sock], [], [], PATIENCE_SECONDS)[0]:
            return None
        connection.sock.settimeout(ANSWER_SECONDS)
        response = connection.getresponse()
        document = json.loads(response.read())
        return Reply(response.status, document, warnings_in(response.getheader("Warning") or ""))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def listed(
    state_dir: Path,
    resource: str,
    namespace: str | None,
    names: Sequence[str] = (),
    query: Mapping[str, str] | None = None,
    *,
    group: str = "/api/v1",
    accept: str = JSON,
) -> dict[str, Any] | None:
    """Return a list of a resource in a namespace, None = in all; with `names`, of these pods alone, if they are few.

    None: there is no worker, or it cannot say.
    """
    where = "" if namespace is None else f"/namespaces/{namespace}"
    named = [("pod", name) for name in dict.fromkeys(names)] if len(names) <= _NAMED else []
    reply = ask(state_dir, f"{group}{where}/{resource}", [*(query or {}).items(), *named], accept=accept)
    return reply.document if reply is not None and reply.code == 200 else None


def reports(
    state_dir: Path, namespace: str | None, names: Sequence[str], *parts: str, at_once: bool = False
) -> list[dict[str, Any]] | None:
    """Return the reports of the open pods of a namespace (None = all), with `names` of these alone, in their order.

    `at_once`: those of the pods that the worker knows, open or not, without asking its server. None as in `listed`.
    """
    query = {"include": ",".join(parts)} | ({"resourceVersion": "0"} if at_once else {})
    found = listed(state_dir, "podreports", namespace, names, query, group=OURS)
    if found is None:
        return None
    wanted = frozenset(names)
    return [each for each in found["items"] if not wanted or each["metadata"]["name"] in wanted]


def plan(state_dir: Path, namespace: str, name: str, candidate: Any, update: str = "apply") -> dict[str, Any] | None:
    """Return the report of a pod that the worker knows, with the steps to which `candidate`, a changed Pod, would lead.

    `update` says by which update it would be changed. None: the worker is away, or knows no such pod.
    """
    path = f"{OURS}/namespaces/{namespace}/podreports/{name}/plan"
    query = [("update", update), ("resourceVersion", "0")]
    reply = ask(state_dir, path, query, method="POST", document=candidate)
    return reply.document if reply is not None and reply.code == 200 else None


def steps_under_way(state_dir: Path) -> list[dict[str, Any]]:
    """Return the descriptions of the steps that are under way on a node; [] if no worker answers."""
    found = listed(state_dir, "steps", None, group=OURS)
    return [] if found is None else list(found["items"])


def settle_journal(state_dir: Path) -> None:
    """Return once the worker of this node, if it has one, has brought its journal up to date.

    Without this the journal is up to a second behind what `get` and `wait` have just said. It blocks, for no longer
    than :data:`ANSWER_SECONDS`; if the worker does not answer, the journal has to do as it is.
    """
    ask(state_dir, f"{OURS}/journal/settle", method="POST")


def refresh_report(state_dir: Path) -> None:
    """Return once the worker of this node, if it has one, has looked for orphans anew, and written the node's report.

    Without this the report is up to a minute old. It blocks no longer than `settle_journal` does.
    """
    ask(state_dir, f"{OURS}/nodereport/refresh", method="POST")
