"""``syncpod get``: the pods there are."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.cli.arguments import pod_names, read_selector
from syncpod.cli.console import Columns, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.options import AllNamespaces, Namespace, PodNames, Selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

    from syncpod.cli.pods import Reading
    from syncpod.cli.selector import Selector as Conditions

_OUTPUTS = ("wide", "json", "yaml", "name")
_WATCH_SECONDS = 1.0


def get(
    what: PodNames = None,
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    output: Annotated[str, typer.Option("--output", "-o", metavar="wide|json|yaml|name", help="How to print.")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, with a line for each change.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the column names.")] = False,
) -> None:
    """List pods.

    They may be named as for kubectl: `pod web`, `pod/web`, or plainly `web`.
    """
    from syncpod.cli import session

    names = pod_names(what or [])
    conditions = read_selector(selector)
    if output and output not in _OUTPUTS:
        raise BadInput(f"--output: must be {', '.join(_OUTPUTS)}, not {output}")
    if names and (conditions.requirements or all_namespaces):
        raise BadInput("pods are either named, or chosen by --selector or --all-namespaces")
    if watch and output in ("json", "yaml"):
        raise BadInput(f"--watch prints tables and names, not {output}")
    scope = None if all_namespaces else namespace

    async def work(client: Client) -> None:
        from syncpod.cli.pods import note_absent_nodes

        printer = _Printer(output, namespaces=all_namespaces, headers=not no_headers)
        readings = await _find(client, names, scope, conditions)
        printer.print(readings, single=len(names) == 1)
        note_absent_nodes(readings)
        if not readings and not names and not watch and output in ("", "wide"):
            remark("No resources found" + ("" if all_namespaces else f" in {namespace} namespace."))
        missing = sorted(set(names) - {reading.pod.metadata.name for reading in readings})
        while watch and not missing:
            await asyncio.sleep(_WATCH_SECONDS)
            printer.print_changes(await _find(client, names, scope, conditions))
        if missing:
            raise Failure("\n".join(f'pods "{name}" not found in namespace {namespace}' for name in missing))

    session.run(work)


async def _find(client: Client, names: Sequence[str], namespace: str | None, conditions: Conditions) -> list[Reading]:
    from syncpod.cli.pods import list_pods, read_pod

    if not names:
        return await list_pods(client, namespace, conditions)
    found = await asyncio.gather(*(read_pod(client, namespace or "default", name) for name in names))
    return [reading for reading in found if reading is not None]


class _Printer:
    """Prints readings in one form, and later only what has changed."""

    def __init__(self, output: str, *, namespaces: bool, headers: bool) -> None:
        self._output = output
        self._namespaces = namespaces
        self._headers = headers
        self._printed: dict[tuple[str, str], tuple[str, ...]] = {}
        self._table = Columns()

    def print(self, readings: Sequence[Reading], *, single: bool) -> None:
        """Print all; `single` prints the document of one pod by itself, not in a list."""
        if self._output in ("json", "yaml"):
            _print_documents(readings, self._output, single=single)
            return
        self._print_lines(readings)
        self._remember(readings)

    def print_changes(self, readings: Sequence[Reading]) -> None:
        """Print those whose line is another one now, age apart."""
        before = dict(self._printed)
        self._remember(readings)
        self._headers = self._headers and not before
        self._print_lines([one for one in readings if self._printed[one.key] != before.get(one.key)])

    def _print_lines(self, readings: Sequence[Reading]) -> None:
        from syncpod.cli.pod_table import coloured_lines, header

        if not readings:
            return
        if self._output == "name":
            lines = [f"pod/{reading.pod.metadata.name}" for reading in readings]
        else:
            wide = self._output == "wide"
            head = header(wide=wide, namespaces=self._namespaces) if self._headers else ()
            lines = coloured_lines(head, readings, wide=wide, namespaces=self._namespaces, table=self._table)
        say("\n".join(lines))

    def _remember(self, readings: Sequence[Reading]) -> None:
        from syncpod.cli.columns import summarize

        self._printed = {}
        for one in readings:
            summary = summarize(one.pod)
            ready = f"{summary.ready}/{summary.total}"
            self._printed[one.key] = (
                one.pod.metadata.uid,
                ready,
                summary.status,
                str(summary.restarts),
                one.pod.status.pod_ip,
            )


def _print_documents(readings: Sequence[Reading], output: str, *, single: bool) -> None:
    documents = [_document(reading) for reading in readings]
    if single and not documents:
        return
    whole: dict[str, Any] = documents[0] if single else {"apiVersion": "v1", "kind": "List", "items": documents}
    if output == "json":
        import json

        say(json.dumps(whole, indent=4))
        return
    import yaml

    yaml.add_representer(str, _block_text, yaml.SafeDumper)
    yaml.safe_dump(whole, sys.stdout, sort_keys=False, allow_unicode=True, width=1000)


def _block_text(dumper: Any, text: str) -> Any:
    """Write text of several lines as a block, as people do."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _document(reading: Reading) -> dict[str, Any]:
    """Return the pod as JSON-able data: as its workflow told it, else what is known of it, without more."""
    from syncpod.pod import pod_to_wire

    return {"apiVersion": "v1", "kind": "Pod"} | (reading.wire or pod_to_wire(reading.pod))
