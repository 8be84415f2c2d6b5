"""The work of ``syncpod top``: the CPU and memory usage of pods and of the node."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from syncpod.api.views.text import columns
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.machine.runtime_choice import endpoint_of
from syncpod.cli.machine.runtime_client import unanswered
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.usage import Meter, measure, measure_node, total
from syncpod.cli.machine.worker_process import local_node
from syncpod.cli.streams import interrupts
from syncpod.cli.view.live_table import LiveLines, can_redraw
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError, TransportFault

if TYPE_CHECKING:
    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.cli.machine.usage import TopContainer, TopMeasured, TopUsage
    from syncpod.cri.port import CriRuntime

_FIRST_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 2.0
"""Seconds from one measurement to the next, with --watch."""
_NOTHING: Final = "No container is measured yet"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Chosen:
    """Which pods are shown."""

    namespace: str | None
    """None = all namespaces."""
    names: Sequence[str]
    """Empty = all pods."""
    conditions: Conditions

    def has(self, each: TopContainer) -> bool:
        """Return whether a container belongs to a chosen pod."""
        return self.may_have(each.namespace, each.pod) and self.conditions.matches(each.labels)

    def may_have(self, namespace: str, name: str) -> bool:
        """Return whether a pod of unknown labels may be chosen, by its namespace and name."""
        return self.namespace in (None, namespace) and (not self.names or name in self.names)


def note_missing(chosen: Chosen, found: Sequence[TopContainer], silent: Sequence[tuple[str, str]]) -> None:
    """Print a note about pods without a measurement. Raises Failure for named pods that do not run here."""
    for name, why in silent:
        remark(f"Note: pod {name} is not measured: {why}")
    known = {each.pod for each in found} | {name for name, _ in silent}
    if missing := [name for name in chosen.names if name not in known]:
        node = _node()
        raise Failure("\n".join(f'pod "{name}": no container of the pod runs on this node, {node}' for name in missing))
    if not found and not silent:
        remark("No resources found" + ("" if chosen.namespace is None else f" in {chosen.namespace} namespace."))


def node_lines(here: str, *, headers: bool) -> list[str]:
    """Measure the machine for a second, and return the table."""
    found = measure_node()
    head = [["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]] if headers else []
    cpu = found.cpu_nano_cores * 100 // (found.cpus * 1_000_000_000)
    memory = found.memory_bytes * 100 // found.total_memory_bytes
    row = [here, cores(found.cpu_nano_cores), f"{cpu}%", mebibytes(found.memory_bytes), f"{memory}%"]
    return columns([*head, row])


def cores(nano_cores: int) -> str:
    """Return CPU in thousandths of a core, rounded up like a quantity."""
    return f"{math.ceil(nano_cores / 1_000_000)}m"


def mebibytes(amount: int) -> str:
    """Return bytes as kubectl prints them: in whole Mi, rounded down."""
    return f"{amount // 2**20}Mi"


@dataclass(frozen=True)
class Table:
    """How the table of pods, or of their containers, is drawn."""

    by_container: bool = False
    namespaces: bool = False
    sort_by: str = ""
    """`cpu` or `memory` = the greatest first; "" = by name."""
    with_sum: bool = False
    headers: bool = True

    def lines(self, found: Sequence[TopContainer], room: int | None = None) -> list[str]:
        """Return the table's lines.

        If there are more rows than `room`, it has the busiest, and the number of the others. `room` None = all rows.
        """
        rows = self._rows(found)
        order = _ORDERS[self.sort_by]
        rows.sort(key=lambda row: (order(row[1]), row[0]))
        drawn, more = rows, ""
        if room is not None and len(rows) > room:
            busiest = sorted(rows, key=lambda row: (_ORDERS["cpu"](row[1]), _ORDERS["memory"](row[1]), row[0]))
            chosen = {key for key, _ in busiest[: max(0, room - 1)]}
            drawn = [row for row in rows if row[0] in chosen]
            more = f"… {len(rows) - len(drawn)} more, which use no more CPU"
        skipped = 0 if self.namespaces else 1
        head = [*(("NAMESPACE",) if self.namespaces else ()), *(("POD",) if self.by_container else ()), "NAME"]
        cells = [[*head, "CPU(cores)", "MEMORY(bytes)"]] if self.headers else []
        cells += [[*key[skipped:], cores(usage.cpu_nano_cores), mebibytes(usage.memory_bytes)] for key, usage in drawn]
        if self.with_sum:
            whole, blank = total(usage for _, usage in rows), [""] * len(head)
            cells += [[*blank, "________", "________"]]
            cells += [[*blank, cores(whole.cpu_nano_cores), mebibytes(whole.memory_bytes)]]
        return [*columns(cells), *([more] if more else [])]

    def _rows(self, found: Sequence[TopContainer]) -> list[tuple[tuple[str, ...], TopUsage]]:
        if self.by_container:
            return [((each.namespace, each.pod, each.container), each.usage) for each in found]
        pods: dict[tuple[str, ...], list[TopUsage]] = {}
        for each in found:
            pods.setdefault((each.namespace, each.pod), []).append(each.usage)
        return [(key, total(usages)) for key, usages in pods.items()]


_ORDERS: Final[dict[str, Callable[[TopUsage], int]]] = {
    "": lambda usage: 0,
    "cpu": lambda usage: -usage.cpu_nano_cores,
    "memory": lambda usage: -usage.memory_bytes,
}


@contextmanager
def drawing() -> Iterator[tuple[Callable[[list[str]], None], Callable[[], int | None]]]:
    """Yield a function that draws a table, and one that returns how many rows fit (None = any number).

    On a terminal, each table replaces the previous one; elsewhere each is printed below the previous one.
    """
    if not can_redraw():
        yield (lambda lines: say("\n".join([*lines, ""])) if lines else None), lambda: None
        return
    with LiveLines() as live:
        yield live.draw, lambda: live.room


def watch_pods(chosen: Chosen, table: Table) -> None:
    """Draw the pods' table until interrupted. Raises Failure."""
    interrupts.enable()

    async def watch(runtime: CriRuntime, here: str) -> None:
        meter = Meter(runtime, here)
        await meter.next()
        pause = _FIRST_SECONDS
        with drawing() as (draw, room):
            while True:
                await asyncio.sleep(pause)
                measured = await meter.next()
                fit = room()
                taken = 2 if table.with_sum else 0
                found = [each for each in measured.containers if chosen.has(each)]
                draw(table.lines(found, None if fit is None else fit - taken) if found else [_NOTHING])
                pause = _WATCH_SECONDS

    _asked(watch)


def _node() -> str:
    """Return the name of this machine's node."""
    return local_node("")


def _measured() -> TopMeasured:
    """Return a measurement of this machine's containers, which takes a second. Raises Failure."""
    return _asked(measure)


def _asked(ask: Callable[[CriRuntime, str], Awaitable[_Answer]]) -> _Answer:
    """Return the result of `ask`, called with this machine's runtime and its node's name. Raises Failure."""
    endpoint, here = endpoint_of(settings().state_dir), _node()

    async def connected() -> _Answer:
        async with CriClient(endpoint) as runtime:
            return await ask(runtime, here)

    try:
        return asyncio.run(connected())
    except TransportFault as fault:
        raise unanswered(fault) from None
    except CriError as error:
        raise Failure(f"the runtime at {endpoint} does not list its containers: {error.message}") from None
