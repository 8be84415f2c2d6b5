"""The node's API as commands use it: this machine's worker answers, or else the same handlers in this process.

The worker has a connection to the server and a list of the open pods. The handlers in this process read the pods from
the server and from the pods' workflows. For that they first import the Temporal SDK and the models, which takes ten
times as long as everything else in a short command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from syncpod.api import client
from syncpod.api.client import Reply
from syncpod.api.listed import why_recorded
from syncpod.api.messages import JSON, TABLE
from syncpod.cli.failure import Failure
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.machine.own_worker import own_server, state_of_own_worker

if TYPE_CHECKING:
    from syncpod.cli.temporal.session import Session
    from syncpod.pod import Pod

_Read = TypeVar("_Read")

NAMED: Final = 50
"""Maximum number of pods named in a request to a worker. For more, all pods are requested, which are
read from visibility, and the answer is filtered."""


class NodeApi:
    """A client of the node's API, for one command."""

    def __init__(self) -> None:
        """Start without a connection."""
        self._session: Session | None = None

    def __enter__(self) -> Self:
        """Return this client; leaving the block closes its connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection to the server, if there is one."""
        if self._session is not None:
            self._session.__exit__()

    @property
    def server(self) -> tuple[str, str]:
        """The address and the namespace of the Temporal server whose pods have been read."""
        own = own_server() if self._session is None else None
        return own or self._in_process().server

    def get(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        accept: str = JSON,
        read: Callable[[Reply], _Read],
    ) -> _Read:
        """Send a GET request, and return the result of `read` for the reply. Raises Failure for an error, except 404.

        A worker of another version may send an incomplete reply, for which `read` raises KeyError, TypeError or
        ValueError. Then the handlers in this process answer the request. Other exceptions of `read` are passed on.
        """
        directory = state_of_own_worker()
        few = query if sum(name == "pod" for name, _ in query) <= NAMED else [one for one in query if one[0] != "pod"]
        reply = None if directory is None else client.ask(directory, path, few, accept=accept)
        if reply is not None and (reply.code == 200 or _is_without(reply)):
            try:
                return read(_required(reply))
            except (KeyError, TypeError, ValueError):
                pass
        return read(_required(self._answer_here(path, query, accept)))

    def table(self, resource: str, namespace: str | None, names: Sequence[str], query: Mapping[str, str]) -> Reply:
        """Return a Table of a resource in a namespace (None = all). With `names`, it has only these objects."""

        def read(reply: Reply) -> Reply:
            if reply.document["kind"] != "Table":
                raise TypeError
            rows = reply.document["rows"]
            wanted = [row for row in rows if not names or row["object"]["metadata"]["name"] in names]
            return reply._replace(document={**reply.document, "rows": wanted})

        where = _path("/api/v1", resource, namespace)
        return self.get(where, _query(query, names), accept=TABLE, read=read)

    def reports(
        self,
        namespace: str | None,
        names: Sequence[str],
        *parts: str,
        query: Sequence[tuple[str, str]] = (),
        read: Callable[[Reply, list[dict[str, Any]]], _Read],
    ) -> _Read:
        """Return the result of `read` for the reports of a namespace's pods (None = all namespaces).

        With `names`, only the reports of these pods. Each report has those of the `parts` that are known.
        """

        def read_reports(reply: Reply) -> _Read:
            items = reply.document["items"]
            return read(reply, [one for one in items if not names or one["metadata"]["name"] in names])

        asked = [*_query({"include": ",".join(parts)}, names), *query]
        return self.get(_path(client.OURS, "podreports", namespace), asked, read=read_reports)

    # --- in this process ----------------------------------------------------------------------------------------------

    def _in_process(self) -> Session:
        if self._session is None:
            from syncpod.cli.temporal.session import Session, connection

            self._session = Session(connection())
        return self._session

    def _answer_here(self, path: str, query: Sequence[tuple[str, str]], accept: str) -> Reply:
        """Return the answer of the handlers in this process. Raises Failure."""
        from temporalio.client import Client

        from syncpod.api.routes import answer_in_process
        from syncpod.cli.temporal.pod_source import TemporalPods

        async def work(connected: Client) -> Reply:
            return await answer_in_process(TemporalPods(connected), path, query, accept)

        return self._in_process().run(work)


def reached_pod(namespace: str, name: str) -> Pod:
    """Return a pod, even if it is an orphan on this machine. Raises Failure if it does not exist or does not answer."""
    from syncpod.pod import Pod

    return Pod.model_validate(reached_document(namespace, name))


def reached_document(namespace: str, name: str) -> dict[str, Any]:
    """Return the v1 Pod of `reached_pod`. Raises the same."""

    def read(reply: Reply) -> dict[str, Any] | None:
        found: dict[str, Any] | None = reply.document if reply.document["kind"] == "Pod" else None
        return found

    with NodeApi() as api:
        document = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}", read=read)
    if document is None:
        raise Failure(no_such_pod(name, namespace))
    if why := why_recorded(document):
        raise Failure(f'pod "{name}" {why}')
    return document


def _is_without(reply: Reply) -> bool:
    """Return whether the reply is a 404 for an object. An older worker also sends 404 for a path that it lacks."""
    return reply.code == client.NOT_FOUND and bool(reply.document.get("details"))


def _required(reply: Reply) -> Reply:
    """Return the reply if its code is 200 or 404. Raises Failure with the reply's message for any other code."""
    if reply.code not in (200, client.NOT_FOUND):
        raise Failure(str(reply.document["message"]))
    return reply


def _path(group: str, resource: str, namespace: str | None) -> str:
    return f"{group}/{resource}" if namespace is None else f"{group}/namespaces/{namespace}/{resource}"


def _query(query: Mapping[str, str], names: Sequence[str]) -> list[tuple[str, str]]:
    return [
        *((name, value) for name, value in query.items() if value),
        *(("pod", name) for name in dict.fromkeys(names)),
    ]
