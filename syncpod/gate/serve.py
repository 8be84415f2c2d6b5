"""A gate as a process: it serves until a signal stops it."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import Callable
from typing import Final

from syncpod.gate.authority import Fleet
from syncpod.gate.gate import Gate, TemporalFrontend
from syncpod.gate.record import GateRecord, write_gate_record
from syncpod.kernel.service_notification import notify_ready
from syncpod.messages.signature import Keys

_ALL: Final = ("0.0.0.0", "::")


async def serve(
    fleet: Fleet,
    keys: Keys,
    behind: TemporalFrontend,
    names: list[str],
    host: str,
    port: int,
    *,
    serving: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM. Once the gate listens, call `serving` with its address for nodes.

    The host of that address is the first of `names`. Without names, it is `host`, unless that means all addresses.
    Raises SettingsInvalid, OSError, RuntimeError.
    """
    _allow_connections()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    gate = Gate(fleet, keys, behind, [*names, *([host] if host not in _ALL else [])])
    try:
        port = await gate.start(host, port)
        name = next(iter(names), "" if host in _ALL else host)
        address = f"[{name}]:{port}" if ":" in name else f"{name}:{port}" if name else ""
        write_gate_record(fleet.directory, GateRecord(address, behind.namespace))
        serving(address or f"port {port} of every address")
        notify_ready()
        waiting = [asyncio.ensure_future(ended.wait()), asyncio.ensure_future(gate.failed())]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        await gate.close()


def _allow_connections() -> None:
    """Raise the limit of open files to this user's maximum: a node's connection needs three, and 1,024 is common."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
