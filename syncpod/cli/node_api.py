"""The node's API as commands use it: this machine's worker answers, or the same handlers in this process.

The worker knows which pods are open, since it has a connection to the server. In this process the handlers get the
pods from the server and the pods' workflows. That imports the Temporal SDK and the models first, which takes ten times
as long as everything else that a short command does.
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

_NAMED: Final = 50
"""At most so many pods are named in a request to a worker; of more, all are asked for."""


class NodeApi:
    """Answers of the node's API, for one command."""

    def __init__(self) -> None:
        """Connect to nobody yet."""
        self._session: Session | None = None
        self._here: Any = None
        """The pods for the handlers in this process."""

    def __enter__(self) -> Self:
        """Return it; it has to be closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give up a connection to the server, if there is one."""
        if self._session is not None:
            self._session.__exit__()

    @property
    def server(self) -> tuple[str, str]:
        """The address and the namespace of the server whose pods have been read."""
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
        """Return what `read` makes of the answer. Raises Failure for an error, except 404, and for what it raises.

        `read` raises KeyError, TypeError or ValueError for an answer that lacks something: a worker of another version
        may give such a one.
        """
        directory = state_of_own_worker()
        few = query if sum(name == "pod" for name, _ in query) <= _NAMED else [one for one in query if one[0] != "pod"]
        reply = None if directory is None else client.ask(directory, path, few, accept=accept)
        if reply is not None and (reply.code == 200 or _is_without(reply)):
            try:
                return read(_required(reply))
            except (KeyError, TypeError, ValueError):
                pass
        return read(_required(self._asked_here(path, query, accept)))

    def table(self, resource: str, namespace: str | None, names: Sequence[str], query: Mapping[str, str]) -> Reply:
        """Return a Table of a resource in a namespace (None = all), with `names` of these pods alone."""

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
        """Return what `read` makes of the reports of pods (None = all namespaces), by namespace and name.

        With `names`, they are of these pods alone. Each has these parts, as far as they are known.
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

    def _asked_here(self, path: str, query: Sequence[tuple[str, str]], accept: str) -> Reply:
        """Return the answer of the handlers in this process. Raises Failure."""
        from temporalio.client import Client

        from syncpod.api.routes import answer_in_process
        from syncpod.cli.temporal.pod_source import TemporalPods

        async def work(connected: Client) -> Reply:
            self._here = self._here or TemporalPods(connected)
            return await answer_in_process(self._here, path, query, accept)

        return self._in_process().run(work)


def reached_pod(namespace: str, name: str) -> Pod:
    """Return one pod, also one that runs here without a workflow. Raises Failure if there is none, or it is silent."""

    def read(reply: Reply) -> dict[str, Any] | None:
        found: dict[str, Any] | None = reply.document if reply.document["kind"] == "Pod" else None
        return found

    with NodeApi() as api:
        document = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}", read=read)
    if document is None:
        raise Failure(no_such_pod(name, namespace))
    if why := why_recorded(document):
        raise Failure(f'pod "{name}" {why}')
    from syncpod.pod import Pod

    return Pod.model_validate(document)


def _is_without(reply: Reply) -> bool:
    """Say whether a worker answers that there is no such object, rather than no such path, as an older one may."""
    return reply.code == client.NOT_FOUND and bool(reply.document.get("details"))


def _required(reply: Reply) -> Reply:
    """Return an answer that is none of an error, or of one that there is no such object. Raises Failure."""
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
