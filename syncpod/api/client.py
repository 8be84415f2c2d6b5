"""The client of the API on a worker's unix socket. It blocks, and imports little, so that commands start quickly.

Only the node's user may connect: the socket has mode 0600, in a directory of mode 0700. A request has the header
``Expect: 100-continue``. A worker that has read the request replies 100 at once, and then has more time for its answer.
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
"""The most bytes of a request's body. A pod has at most 512 KiB."""
PATIENCE_SECONDS: Final = 2.0
"""The timeout of the worker for reading a request, and of a client for reading a part of the answer."""
ANSWER_SECONDS: Final = 10.0
"""The timeout for each part of the answer, once the worker has read the request. After this timeout a client queries
each pod's workflow instead, which the same worker answers: with a thousand pods on a busy node, that takes ten times as
long."""
NOT_FOUND: Final = 404
OURS: Final = "/apis/syncpod.dev/v1"
_NAMED: Final = 50
"""The most pods that a request names. For more pods, the client requests all pods of the namespace."""


class Reply(NamedTuple):
    """The worker's answer."""

    code: int
    document: Any
    """The body's JSON."""
    warnings: tuple[str, ...] = ()
    """The sentences in the answer's Warning header."""


@contextlib.contextmanager
def socket_address(state_dir: Path) -> Iterator[str]:
    """Yield an address of the socket that is short enough, for any path of the state directory. Raises OSError.

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
    """Return the answer of the worker of this state directory.

    None if there is no worker, if it does not answer in time, or if the answer is incomplete or not JSON.
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
    """Return the list of a resource in a namespace (None = all); None unless a worker answers with code 200.

    With at most `_NAMED` `names`, the list has only the objects of these pods.
    """
    where = "" if namespace is None else f"/namespaces/{namespace}"
    named = [("pod", name) for name in dict.fromkeys(names)] if len(names) <= _NAMED else []
    reply = ask(state_dir, f"{group}{where}/{resource}", [*(query or {}).items(), *named], accept=accept)
    return reply.document if reply is not None and reply.code == 200 else None


def reports(
    state_dir: Path, namespace: str | None, names: Sequence[str], *parts: str, at_once: bool = False
) -> list[dict[str, Any]] | None:
    """Return the reports of a namespace's open pods (None = of all namespaces); with `names`, of these pods only.

    `parts` name the parts of each report. With `at_once`, the worker answers from its cache, which may also have ended
    pods, without a call to the Temporal server. Returns None like `listed`.
    """
    query = {"include": ",".join(parts)} | ({"resourceVersion": "0"} if at_once else {})
    found = listed(state_dir, "podreports", namespace, names, query, group=OURS)
    if found is None:
        return None
    wanted = frozenset(names)
    return [each for each in found["items"] if not wanted or each["metadata"]["name"] in wanted]


def node(state_dir: Path, name: str) -> dict[str, Any] | None:
    """Return the Node of this name from the worker's cache; None if no worker answers, or it serves another node."""
    reply = ask(state_dir, f"/api/v1/nodes/{name}", [("resourceVersion", "0")])
    return reply.document if reply is not None and reply.code == 200 else None


def plan(state_dir: Path, namespace: str, name: str, candidate: Any, update: str = "apply") -> dict[str, Any] | None:
    """Return a pod's report with the steps that its workflow would take if it were changed to `candidate`, a Pod.

    `update` names the workflow's update that would make the change. None if no worker answers, or has no such pod.
    """
    path = f"{OURS}/namespaces/{namespace}/podreports/{name}/plan"
    query = [("update", update), ("resourceVersion", "0")]
    reply = ask(state_dir, path, query, method="POST", document=candidate)
    return reply.document if reply is not None and reply.code == 200 else None


def steps_under_way(state_dir: Path) -> list[dict[str, Any]]:
    """Return the descriptions of the steps that are under way on a node; [] if no worker answers."""
    found = listed(state_dir, "steps", None, group=OURS)
    return [] if found is None else list(found["items"])


def settle_journal(state_dir: Path) -> str:
    """Wait until the node's worker, if there is one, has brought the journal up to date.

    Otherwise the journal may be a second behind the output of `get` and `wait`. Blocks for at most
    :data:`ANSWER_SECONDS`; if the worker does not answer, the journal is left as it is. Returns why the worker cannot
    write it; "" if it can, or if that is not known.
    """
    reply = ask(state_dir, f"{OURS}/journal/settle", method="POST")
    is_failing = reply is not None and reply.document.get("status") == "Failure"
    return str(reply.document.get("message", "")) if reply is not None and is_failing else ""


def refresh_report(state_dir: Path) -> None:
    """Wait until the node's worker, if there is one, has searched for orphans again and written the node's report.

    Otherwise the report may be a minute old. Blocks no longer than `settle_journal` does.
    """
    ask(state_dir, f"{OURS}/nodereport/refresh", method="POST")
