"""``syncpod events``: the events of pods."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.api.views.text import Columns
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.options import AllNamespaces, Namespace, PodNames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

    from syncpod.api.views.events import PodEvent
    from syncpod.cli.view.jsonpath import Path
    from syncpod.pod import Pod

Types = Annotated[
    str, typer.Option("--types", metavar="Normal,Warning", help="Only events of these types.", show_default="both")
]
SortBy = Annotated[
    str, typer.Option("--sort-by", metavar="FIELD", help="Sort by this field of an Event: .firstTimestamp, .count.")
]
_OUTPUTS = ("wide", "json", "yaml", "name")
_TYPES = ("Normal", "Warning")
_WATCH_SECONDS = 1.0
_AT_ONCE = 50


def events(
    what: PodNames = None,
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    about: Annotated[str, typer.Option("--for", metavar="pod/NAME", help="Only events of this pod.")] = "",
    types: Types = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep watching, and print each new event.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="wide|json|yaml|name", help="The output format.")
    ] = "",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Do not print the column names.")] = False,
    sort_by: SortBy = "",
) -> None:
    """List the events of pods, the newest last.

    Each pod keeps its last hundred events; a repeated event is counted. The container that an event is about stands in
    parentheses behind the pod. A named pod may have ended: its events are there for as long as Temporal keeps its
    workflow. Events of the last hour of other pods that are gone from this machine's node, such as earlier ones of the
    same name, come from the node's journal. `(gone)` marks them.
    """
    names = pod_names(what or []) + _named_by_for(about)
    _check(names, output, all_namespaces=all_namespaces)
    wanted = _types(types)
    printer = _Printer(output, namespaces=all_namespaces, headers=not no_headers, order=_order(sort_by, watch=watch))
    where = "" if all_namespaces else f" in {namespace} namespace"
    told = None if watch else _told(None if all_namespaces else namespace, names, wanted)
    if told is not None:
        _print_once(printer, told, output, where)
        return
    import asyncio

    from syncpod.cli.streams import interrupts
    from syncpod.cli.temporal import session

    source = _Source(
        None if all_namespaces else namespace, names, wanted, with_fields=output in ("wide", "json", "yaml")
    )

    async def work(client: Client) -> None:
        found = await source.read(client)
        if not watch:
            server = client.service_client.config.target_host, client.namespace
            found = _with_gone(found, server, source.namespace, names, wanted)
            source.require(found)
            _print_once(printer, found, output, where, is_whole=not source.silent)
            if source.silent:
                raise Failure(source.gap(source.silent))
            return
        source.require(found)
        if found:
            printer.print(found)
        while True:
            source.note_silent()
            await asyncio.sleep(_WATCH_SECONDS)
            printer.print(await source.read(client))

    if watch:
        interrupts.enable()
    session.run(work)


def _order(sort_by: str, *, watch: bool) -> Path | None:
    """Return the path to sort by; None = there is none. Raises BadInput."""
    if not sort_by:
        return None
    if watch:
        raise BadInput("--sort-by: a watch prints events in the order in which they come")
    from syncpod.cli.view.sorting import sort_path

    return sort_path(sort_by)


def _check(names: Sequence[str], output: str, *, all_namespaces: bool) -> None:
    """Raise BadInput for flags that exclude each other, or mean nothing."""
    if names and all_namespaces:
        raise BadInput("a named pod is in one namespace: leave out --all-namespaces")
    if output and output not in _OUTPUTS:
        raise BadInput(f"--output: must be {', '.join(_OUTPUTS)}, not {output}")


def _print_once(
    printer: _Printer, found: Sequence[PodEvent], output: str, where: str, *, is_whole: bool = True
) -> None:
    """Print events; if there is none, and each pod `is_whole`ly read, say so."""
    if output in ("json", "yaml"):
        printer.print_whole(found)
    elif found:
        printer.print(found)
    elif is_whole:
        remark(f"No events found{where}.")


def _told(namespace: str | None, names: Sequence[str], types: frozenset[str]) -> list[PodEvent] | None:
    """Return the events as this machine's worker lists them, the newest last; None if the server has to be asked."""
    from syncpod.api.views.events import events_of
    from syncpod.cli.machine.own_pods import own_server, told_reports

    told, server = told_reports(namespace, names, "pod", "events"), own_server()
    if told is None or server is None or len(told) < len(set(names)):
        return None
    try:
        found = [event for one in told for event in events_of(one["pod"], one["events"])]
        return _with_gone(found, server, namespace, names, types)
    except (KeyError, TypeError, ValueError):  # of a worker of another version; the models have defaults
        return None


def _with_gone(
    events: Sequence[PodEvent],
    server: tuple[str, str],
    namespace: str | None,
    names: Sequence[str],
    types: frozenset[str],
) -> list[PodEvent]:
    """Return the events and those of gone pods in this machine's journal, the newest last."""
    from syncpod.api.views.events import by_time
    from syncpod.cli.machine.own_journal import with_gone

    found = with_gone(events, server, namespace, names, datetime.now(UTC))
    return by_time([event for event in found if event.record.type in types])


def _named_by_for(about: str) -> list[str]:
    if not about:
        return []
    kind, slash, name = about.partition("/")
    if not (slash and kind and name):
        raise BadInput(f"--for: must be pod/NAME, not {about}")
    return pod_names([about])


def _types(text: str) -> frozenset[str]:
    known = {each.casefold(): each for each in _TYPES}
    wanted = [word.strip() for word in text.split(",")] if text else list(_TYPES)
    for word in wanted:
        if word.casefold() not in known:
            raise BadInput(f"--types: must be {' or '.join(_TYPES)}, or both with a comma, not {word!r}")
    return frozenset(known[word.casefold()] for word in wanted)


class _Source:
    """Reads the events of named pods, else of all pods in a namespace (None = all)."""

    def __init__(
        self, namespace: str | None, names: Sequence[str], types: frozenset[str], *, with_fields: bool
    ) -> None:
        self.namespace = namespace
        self._names = list(dict.fromkeys(names))
        self._types = types
        self._with_fields = with_fields
        self._before: dict[tuple[str, str], Pod] = {}
        """The pods of the last listing: those that have gone since are asked once more, for their last events."""
        self.silent: tuple[Pod, ...] = ()
        """The pods that did not answer, as Temporal recorded them."""
        self.missing: dict[str, Failure] = {}
        """By name: that Temporal knows no such pod."""
        self._why = ""
        """Why they did not: which of their nodes are away, and which are busy."""
        self._noted: frozenset[str] = frozenset()

    async def read(self, client: Client) -> list[PodEvent]:
        """Return all events, the newest last."""
        import asyncio

        from syncpod.api.views.events import by_time
        from syncpod.cli.temporal.liveness import absence, unserved_queue
        from syncpod.messages.identity import node_task_queue

        pods, unserved = await self._pods(client), await unserved_queue(client)
        some = asyncio.Semaphore(_AT_ONCE)
        silent: list[Pod] = []

        async def of(pod: Pod) -> list[PodEvent]:
            if unserved and node_task_queue(pod.spec.node_name or "") == unserved:
                silent.append(pod)
                return []
            async with some:
                found = await _events_of(client, pod, with_fields=self._with_fields)
            if found is None:
                silent.append(pod)
            return found or []

        found = await asyncio.gather(*map(of, pods))
        self.silent = tuple(silent)
        self._why = await absence(client, {pod.spec.node_name for pod in silent}) if silent else ""
        return by_time([event for each in found for event in each if event.record.type in self._types])

    async def _pods(self, client: Client) -> list[Pod]:
        import asyncio

        from syncpod.cli.temporal.pods import list_recorded, read_recorded

        if self._names:
            self.missing = {}

            async def recorded(name: str) -> Pod | None:
                try:
                    return await read_recorded(client, self.namespace or "default", name)
                except Failure as missing:
                    self.missing[name] = missing
                    return None

            return [pod for pod in await asyncio.gather(*map(recorded, self._names)) if pod is not None]
        there = {
            (pod.metadata.namespace, pod.metadata.name): pod for pod in await list_recorded(client, self.namespace)
        }
        asked = [*there.values(), *(pod for key, pod in self._before.items() if key not in there)]
        self._before = there
        return asked

    def require(self, found: Sequence[PodEvent]) -> None:
        """Raise Failure if a named pod does not exist, and nothing of an earlier one of its name was found either."""
        for name, failure in self.missing.items():
            if not any(event.pod == name for event in found):
                raise failure

    def gap(self, silent: Sequence[Pod]) -> str:
        """Return the names of the pods whose events could not be read, and why."""
        return f"without the events of {', '.join(sorted(pod.metadata.name for pod in silent))}: {self._why}"

    def note_silent(self) -> None:
        """Print a note about pods that did not answer, once for each as long as it does not."""
        if new := [pod for pod in self.silent if pod.metadata.name not in self._noted]:
            remark(f"Note: {self.gap(new)}")
        self._noted = frozenset(pod.metadata.name for pod in self.silent)


async def _events_of(client: Client, pod: Pod, *, with_fields: bool) -> list[PodEvent] | None:
    """Return the events of a pod, running or ended; None if its node does not answer."""
    from temporalio.client import WorkflowQueryFailedError
    from temporalio.service import RPCError

    from syncpod.api.views.events import PodEvent, field_paths
    from syncpod.cli.temporal.pod_reads import ask_pod, read_records
    from syncpod.messages.identity import pod_workflow_id
    from syncpod.messages.queries import read_events

    meta = pod.metadata
    workflow_id = pod_workflow_id(meta.namespace, meta.name)
    paths: dict[str, str] = {}
    try:
        records: list[Any] = await ask_pod(client, workflow_id, "events", result_type=list)
        if with_fields:
            paths = field_paths(await ask_pod(client, workflow_id, "pod", result_type=dict))
    except (WorkflowQueryFailedError, RPCError):
        return None
    return [
        PodEvent(meta.namespace, meta.name, meta.uid, pod.spec.node_name or "", paths.get(one.container, ""), one)
        for one in read_records(read_events, records, "events")
    ]


class _Printer:
    """Prints events, and later only those that are new or repeated."""

    def __init__(self, output: str, *, namespaces: bool, headers: bool, order: Path | None) -> None:
        """`order`: the path in an Event to sort by; None = the newest is last."""
        self._output = output
        self._order = order
        self.namespaces = namespaces
        self._headers = headers
        self._table = Columns()
        self._printed: dict[tuple[str, ...], tuple[int, datetime]] = {}

    def print_whole(self, found: Sequence[PodEvent]) -> None:
        """Print one document of all."""
        found = self._sorted(found)
        from syncpod.api.views.events import document
        from syncpod.cli.view.documents import print_documents

        print_documents([document(event) for event in found], self._output, single=False)

    def print(self, found: Sequence[PodEvent]) -> None:
        """Print what has not been printed yet."""
        found = self._sorted(found)
        news = [event for event in found if self._printed.get(event.key) != (event.record.count, event.last)]
        # If a pod does not answer for a moment, keep track of its events that were printed.
        self._printed |= {event.key: (event.record.count, event.last) for event in found}
        if news:
            self._write(news)

    def _sorted(self, found: Sequence[PodEvent]) -> Sequence[PodEvent]:
        if self._order is None:
            return found
        from syncpod.api.views.events import document
        from syncpod.cli.view.sorting import in_order

        return in_order(found, self._order, document)

    def _write(self, news: Sequence[PodEvent]) -> None:
        from syncpod.api.views.events import document
        from syncpod.cli.view.event_lines import lines

        match self._output:
            case "json":
                for event in news:
                    say(json.dumps(document(event), indent=4))
            case "yaml":
                from syncpod.cli.view.documents import print_documents

                for event in news:
                    say("---")
                    print_documents([document(event)], "yaml", single=True)
            case "name":
                say("\n".join(f"event/{event.name}" for event in news))
            case _:
                wide = self._output == "wide"
                now = datetime.now(UTC)
                shown = lines(
                    news, now, wide=wide, namespaces=self.namespaces, headers=self._headers, table=self._table
                )
                self._headers = False
                say("\n".join(shown))
