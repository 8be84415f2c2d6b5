"""The evidence from outside: notes and locks on disk, the runtimes' lists, and the lines of `syncpod fleet get`."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from qa.chaos import notes
from qa.chaos.notes import Note
from qa.fleet_chaos.judge import Row
from syncpod.cri.client import CriClient
from syncpod.translation.names import POD_NAME_LABEL

_LOCK = re.compile(r"FLOCK +\S+ +WRITE +\d+ +\w+:\w+:(\d+) ")


def now() -> int:
    """The present time as in the notes: nanoseconds since the machine booted."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def read_notes(place: Path) -> dict[str, tuple[Note, ...]]:
    """The notes of all containers, by the name of their pod."""
    return {path.stem: notes.read_one(path) for path in place.glob("*.log")}


def alive(place: Path) -> frozenset[tuple[str, str]]:
    """The live containers, by pod and name: those whose locks are held, according to the kernel.

    This must not try to take a lock: a container that starts at that moment would find its own lock held.
    """
    held = {int(one[1]) for line in Path("/proc/locks").read_text().splitlines() if (one := _LOCK.search(line))}
    found = set()
    for lock in place.glob("*.lock"):
        if lock.stat().st_ino in held:
            pod, _, container = lock.name.removesuffix(".lock").rpartition(".")
            found.add((pod, container))
    return frozenset(found)


def sandboxes(endpoints: dict[str, str]) -> dict[str, Counter[str]]:
    """The number of live sandboxes of each pod, by node, as the node's runtime lists them."""

    async def listed(endpoint: str) -> Counter[str]:
        async with CriClient(endpoint) as cri:
            return Counter(
                each.labels[POD_NAME_LABEL] for each in await cri.list_pod_sandboxes() if each.state == "SANDBOX_READY"
            )

    async def everywhere() -> dict[str, Counter[str]]:
        return dict(zip(endpoints, await asyncio.gather(*map(listed, endpoints.values())), strict=True))

    return asyncio.run(everywhere())


def rows(listing: str) -> list[Row]:
    """Parse the output of `syncpod fleet get pods -o wide --no-headers`."""
    found = []
    for line in listing.splitlines():
        name, ready, status, restarts, _age, _ip, node, _owner = re.split(r" {2,}", line.strip())
        found.append(Row(name, ready, status, int(restarts), node))
    return found


def containing(data: bytes, signs: Iterable[str]) -> list[str]:
    """Those of the texts that the data contains, literally or in hexadecimal digits, as PostgreSQL dumps bytes."""
    lower = data.lower()
    return [sign for sign in signs if sign.encode() in data or sign.encode().hex().encode() in lower]
