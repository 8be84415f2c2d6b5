"""``syncpod top``: the CPU and memory usage of pods and of the node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import columns, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_names, read_selector
from syncpod.cli.input.options import AllNamespaces, Namespace, PodNames, Selector
from syncpod.cli.manual import Group, Page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncpod.cli.input.selector import Selector as Conditions
    from syncpod.cli.machine.container_usage import ContainerUsage, Measured, Usage

app = typer.Typer(cls=Group, help="Show the CPU and memory usage of pods and of the node.", no_args_is_help=True)

SortBy = Annotated[str, typer.Option("--sort-by", metavar="cpu|memory", help="Sort by this, the greatest first.")]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Do not print the column names.")]


def pod(
    what: PodNames = None,
    containers: Annotated[bool, typer.Option("--containers", help="A line for each container.")] = False,
    sort_by: SortBy = "",
    with_sum: Annotated[bool, typer.Option("--sum", help="Print the sum in a last line.")] = False,
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    no_headers: NoHeaders = False,
) -> None:
    """Show the CPU and memory usage of this node's pods.

    The runtime is asked twice, a second apart: CPU is what was used in between, in thousandths of a core; memory is the
    working set, which cannot be reclaimed without harm. Pods with no running container are left out.
    """
    names = pod_names(what or [])
    conditions = read_selector(selector)
    if sort_by not in ("", "cpu", "memory"):
        raise BadInput(f"--sort-by: must be cpu or memory, not {sort_by}")
    if names and (conditions.requirements or all_namespaces):
        raise BadInput("name pods, or choose them with --selector or --all-namespaces, not both")
    chosen = _Chosen(None if all_namespaces else namespace, names, conditions)
    measured = _measured()
    found = [each for each in measured.containers if chosen.has(each)]
    if found:
        print_pods(
            found,
            by_container=containers,
            namespaces=all_namespaces,
            sort_by=sort_by,
            with_sum=with_sum,
            headers=not no_headers,
        )
    silent = [(name, why) for space, name, why in measured.unmeasured if chosen.may_have(space, name)]
    _tell_what_lacks(chosen, found, silent)


@dataclass(frozen=True)
class _Chosen:
    """Which pods are shown."""

    namespace: str | None
    """None = all."""
    names: Sequence[str]
    """Empty = all."""
    conditions: Conditions

    def has(self, each: ContainerUsage) -> bool:
        """Return whether a container belongs to such a pod."""
        return self.may_have(each.namespace, each.pod) and self.conditions.matches(each.labels)

    def may_have(self, namespace: str, name: str) -> bool:
        """Return whether a pod whose labels are not known may be one."""
        return self.namespace in (None, namespace) and (not self.names or name in self.names)


def _tell_what_lacks(chosen: _Chosen, found: Sequence[ContainerUsage], silent: Sequence[tuple[str, str]]) -> None:
    """Print a note about pods without a measurement. Raises Failure for named pods that do not run here."""
    for name, why in silent:
        remark(f"Note: pod {name} is not measured: {why}")
    known = {each.pod for each in found} | {name for name, _ in silent}
    if missing := [name for name in chosen.names if name not in known]:
        node = _node()
        raise Failure("\n".join(f'pod "{name}": none of its containers runs on this node, {node}' for name in missing))
    if not found and not silent:
        remark("No resources found" + ("" if chosen.namespace is None else f" in {chosen.namespace} namespace."))


def node(
    what: Annotated[list[str] | None, typer.Argument(metavar="NODE", hidden=True, show_default=False)] = None,
    no_headers: NoHeaders = False,
) -> None:
    """Show the CPU and memory usage of this machine.

    Everything counts, pods or not. Percentages are of the machine's total.
    """
    from syncpod.cli.machine.node_usage import measure_node

    here = _node()
    for name in what or ():
        if name.removeprefix("node/").removeprefix("nodes/") != here:
            raise Failure(f'node "{name}" is not this machine, {here}: run this command there')
    found = measure_node()
    head = [] if no_headers else [["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]]
    cpu = found.cpu_nano_cores * 100 // (found.cpus * 1_000_000_000)
    memory = found.memory_bytes * 100 // found.total_memory_bytes
    row = [here, cores(found.cpu_nano_cores), f"{cpu}%", mebibytes(found.memory_bytes), f"{memory}%"]
    say("\n".join(columns([*head, row])))


for _names, _command in ((("pod", "pods", "po"), pod), (("node", "nodes", "no"), node)):
    for _name in _names:
        app.command(_name, cls=Page, hidden=_name != _names[0])(_command)


def cores(nano_cores: int) -> str:
    """Return CPU in thousandths of a core, rounded up like a quantity."""
    return f"{math.ceil(nano_cores / 1_000_000)}m"


def mebibytes(amount: int) -> str:
    """Return bytes as kubectl prints them: in whole Mi, rounded down."""
    return f"{amount // 2**20}Mi"


def print_pods(
    found: Sequence[ContainerUsage],
    *,
    by_container: bool,
    namespaces: bool,
    sort_by: str,
    with_sum: bool,
    headers: bool,
) -> None:
    """Print the table of pods, or of their containers, by name or the greatest first."""
    from syncpod.cli.machine.container_usage import total

    rows: list[tuple[tuple[str, ...], Usage]] = []
    if by_container:
        head = ["POD", "NAME"]
        rows = [((each.namespace, each.pod, each.container), each.usage) for each in found]
    else:
        head = ["NAME"]
        pods = {(each.namespace, each.pod) for each in found}
        rows = [(key, total(each.usage for each in found if (each.namespace, each.pod) == key)) for key in pods]
    order: dict[str, Callable[[Usage], int]] = {
        "": lambda usage: 0,
        "cpu": lambda usage: -usage.cpu_nano_cores,
        "memory": lambda usage: -usage.memory_bytes,
    }
    rows.sort(key=lambda row: (order[sort_by](row[1]), row[0]))
    skipped = 0 if namespaces else 1
    lines = [[*(("NAMESPACE",) if namespaces else ()), *head, "CPU(cores)", "MEMORY(bytes)"]] if headers else []
    lines += [[*key[skipped:], cores(usage.cpu_nano_cores), mebibytes(usage.memory_bytes)] for key, usage in rows]
    if with_sum:
        whole = total(usage for _, usage in rows)
        blank = [""] * (len(lines[-1]) - 2)
        lines += [[*blank, "________", "________"]]
        lines += [[*blank, cores(whole.cpu_nano_cores), mebibytes(whole.memory_bytes)]]
    say("\n".join(columns(lines)))


def _node() -> str:
    """Return the name of this machine's node."""
    from syncpod.cli.machine.worker_process import local_node

    return local_node("")


def _measured() -> Measured:
    """Ask this machine's runtime. Raises Failure."""
    import asyncio

    from syncpod.cli.machine.container_usage import measure
    from syncpod.cli.machine.runtime_choice import endpoint_of
    from syncpod.cli.machine.runtime_client import unanswered
    from syncpod.cli.machine.settings import settings
    from syncpod.cri.client import CriClient
    from syncpod.cri.errors import CriError, TransportFault

    endpoint, here = endpoint_of(settings().state_dir), _node()

    async def ask() -> Measured:
        async with CriClient(endpoint) as runtime:
            return await measure(runtime, here)

    try:
        return asyncio.run(ask())
    except TransportFault as fault:
        raise unanswered(fault) from None
    except CriError as error:
        raise Failure(f"the runtime at {endpoint} does not list its containers: {error.message}") from None
