"""The resources of a node: read from the machine, unless its owner sets other amounts.

Mirrors nodestatus/setters.go, MachineInfo, and cm/node_container_manager_linux.go, v1.36. Differences: nothing is
reserved for the system or for evictions unless the owner sets less, and the number of pods is unlimited unless the
owner sets a limit (the kubelet's is 110).
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from syncpod.node.fit import PODS, Capacity
from syncpod.pod import parse_quantity
from syncpod.pod.amounts import HUGE_PAGES
from syncpod.pod.quantity import quantity_text
from syncpod.translation.context import Host

_SETTABLE = ("cpu", "memory", "ephemeral-storage", PODS)


class CapacityInvalid(ValueError):
    """A capacity is set to an invalid value; the text says which, and what a valid one looks like."""


def read_capacity(
    host: Host, state_dir: Path, overrides: Mapping[str, int] | None = None, root: Path = Path("/")
) -> Capacity:
    """Return the machine's resources, with ``overrides`` in place of what was read. Blocks. Raises OSError.

    Ephemeral storage is the file system of ``state_dir``, which must exist. Memory reserved for huge pages is not
    counted as memory.
    """
    pages = _huge_pages(root / "sys/kernel/mm/hugepages")
    disk = os.statvfs(state_dir)
    found = {
        "cpu": host.cpus * 1000,
        "memory": max(0, host.memory_bytes - sum(pages.values())),
        "ephemeral-storage": disk.f_blocks * disk.f_frsize,
        **pages,
    }
    return found | dict(overrides or {})


def parse_capacity(text: str) -> Mapping[str, int]:
    """Parse ``cpu=8,memory=32Gi,pods=110``. Raises :class:`CapacityInvalid`."""
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not equals or name in found or not (name in _SETTABLE or name.startswith(HUGE_PAGES)):
            raise CapacityInvalid(
                f"capacity {part!r}: must be one of {', '.join(_SETTABLE)} or {HUGE_PAGES}<size>, each once, "
                "and an amount, such as cpu=8,memory=32Gi"
            )
        try:
            quantity = parse_quantity(amount)
        except ValueError as error:
            raise CapacityInvalid(f"capacity {part!r}: {amount!r} {error}") from None
        if quantity.number < 0:
            raise CapacityInvalid(f"capacity {part!r}: must not be negative")
        found[name] = quantity.milli_value() if name == "cpu" else quantity.value()
    return found


def _huge_pages(directory: Path) -> dict[str, int]:
    """Return the bytes of huge pages by resource name, including sizes of which there are no pages."""
    found: dict[int, int] = {}
    for entry in directory.iterdir() if directory.is_dir() else ():
        if matched := re.fullmatch(r"hugepages-(\d+)kB", entry.name):
            size = int(matched[1]) * 1024
            found[size] = size * int((entry / "nr_hugepages").read_text())
    return {f"{HUGE_PAGES}{_binary(size)}": amount for size, amount in sorted(found.items())}


def _binary(size: int) -> str:
    return quantity_text(parse_quantity(str(size)), like="1Ki")
