"""The resources of a node: read from the machine, unless its owner sets other amounts.

Mirrors nodestatus/setters.go, MachineInfo, and cm/node_container_manager_linux.go, v1.36: pods may request the
machine's resources, minus the amounts that are reserved for the system and that evictions keep free. Differences:
nothing is subtracted from an amount that the owner sets; and the number of pods is unlimited unless the owner sets a
limit (the kubelet's is 110).
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from syncpod.lifecycle.eviction import Threshold, bytes_text
from syncpod.node.fit import PODS, Capacity
from syncpod.pod import parse_quantity
from syncpod.pod.amounts import HUGE_PAGES
from syncpod.translation.context import Host

PIDS: Final = "pid"
_SETTABLE: Final = ("cpu", "memory", "ephemeral-storage", PODS)
_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", PIDS)
_KEPT_FREE: Final = {"memory.available": "memory", "nodefs.available": "ephemeral-storage"}
"""By eviction signal: its resource. Pods cannot request the amount that the signal's hard threshold keeps free."""


class CapacityInvalid(ValueError):
    """A capacity is set to an invalid value; the text names the value and describes a valid one."""


class NodeAmounts(NamedTuple):
    """The resources of a node."""

    machine: Capacity
    """The Node's capacity."""
    of_pods: Capacity
    """The limits of all pods together: the capacity minus the reserved amounts."""
    allocatable: Capacity
    """The amounts that pods may request: `of_pods` minus the amounts that evictions keep free."""


def read_capacity(
    host: Host,
    state_dir: Path,
    overrides: Mapping[str, int] | None = None,
    *,
    reserved: Mapping[str, int] | None = None,
    thresholds: Iterable[Threshold] = (),
    root: Path = Path("/"),
) -> NodeAmounts:
    """Return the node's resources: the machine's, or ``overrides`` in place of measured amounts. Blocks.

    Ephemeral storage is the file system of ``state_dir``, which must exist. Pods cannot request memory that is set
    aside for huge pages. Raises OSError, and CapacityInvalid if more is reserved than the machine has.
    """
    pages = _huge_pages(root / "sys/kernel/mm/hugepages")
    disk = os.statvfs(state_dir)
    machine = {
        "cpu": host.cpus * 1000,
        "memory": host.memory_bytes,
        "ephemeral-storage": disk.f_blocks * disk.f_frsize,
        **pages,
    }
    free = {name: 0 for name in machine} | {"memory": min(sum(pages.values()), host.memory_bytes)}
    of_pods = _less(machine, free, reserved or {})
    hard = [each for each in thresholds if each.hard and each.signal in _KEPT_FREE]
    kept = {_KEPT_FREE[each.signal]: each.value.of(machine[_KEPT_FREE[each.signal]]) for each in hard}
    given = dict(overrides or {})
    return NodeAmounts(machine | given, of_pods | given, _less(of_pods, kept, {}) | given)


def _less(amounts: Capacity, kept: Mapping[str, int], reserved: Mapping[str, int]) -> dict[str, int]:
    """Return the amounts minus those that are kept free or reserved. Raises CapacityInvalid for a negative result."""
    left = {name: amount - kept.get(name, 0) - reserved.get(name, 0) for name, amount in amounts.items()}
    for name, amount in left.items():
        if amount < 0:
            raise CapacityInvalid(f"more {name} is reserved, or kept free by evictions, than this machine has")
    return left


def parse_capacity(text: str) -> Mapping[str, int]:
    """Parse ``cpu=8,memory=32Gi,pods=110``. Raises :class:`CapacityInvalid`."""
    return _parsed("capacity", text, _SETTABLE, f" or {HUGE_PAGES}<size>", "cpu=8,memory=32Gi")


def parse_reserved(text: str) -> Mapping[str, int]:
    """Parse ``cpu=500m,memory=1Gi,pid=1000``, the amounts reserved for the system. Raises :class:`CapacityInvalid`."""
    return _parsed("reserved", text, _RESERVABLE, "", "cpu=500m,memory=1Gi")


def _parsed(what: str, text: str, names: tuple[str, ...], more: str, example: str) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not equals or name in found or not (name in names or (more and name.startswith(HUGE_PAGES))):
            raise CapacityInvalid(
                f"{what} {part!r}: must be one of {', '.join(names)}{more}, each once, and an amount, such as {example}"
            )
        try:
            quantity = parse_quantity(amount)
        except ValueError as error:
            raise CapacityInvalid(f"{what} {part!r}: {amount!r} {error}") from None
        if quantity.number < 0:
            raise CapacityInvalid(f"{what} {part!r}: must not be negative")
        found[name] = quantity.milli_value() if name == "cpu" else quantity.value()
    return found


def _huge_pages(directory: Path) -> dict[str, int]:
    """Return the bytes of huge pages by resource name, including sizes without pages."""
    found: dict[int, int] = {}
    for entry in directory.iterdir() if directory.is_dir() else ():
        if matched := re.fullmatch(r"hugepages-(\d+)kB", entry.name):
            size = int(matched[1]) * 1024
            found[size] = size * int((entry / "nr_hugepages").read_text())
    return {f"{HUGE_PAGES}{bytes_text(size)}": amount for size, amount in sorted(found.items())}
