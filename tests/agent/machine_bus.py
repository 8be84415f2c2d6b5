"""A D-Bus daemon for tests, with a stand-in for systemd's logind that grants inhibitor locks and announces shutdowns.

`python -m tests.agent.machine_bus ADDRESS` serves the stand-in alone, until it is ended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which
from typing import Any, Final

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

DAEMON: Final = which("dbus-daemon")
_MANAGER: Final = "org.freedesktop.login1.Manager"
_PATH: Final = "/org/freedesktop/login1"


class Logind:
    """The stand-in for logind."""

    def __init__(self, bus: MessageBus, *, delay: int = 120, reads: Path | None = None) -> None:
        """Set the largest delay of a shutdown in seconds, and the configuration file that is read at SIGHUP, if any."""
        self._bus, self.delay, self._reads = bus, delay, reads
        self.shutdown = False
        """Whether the machine is shutting down."""
        self.locks: list[int] = []
        """The read ends of the pipes that are locks."""

    async def serve(self) -> None:
        self._bus.add_message_handler(self._answer)
        for name in ("org.freedesktop.login1", "org.freedesktop.systemd1"):
            await self._bus.request_name(name)

    def _answer(self, asked: Message) -> Any:
        if asked.message_type is not MessageType.METHOD_CALL:
            return None
        if asked.member == "Inhibit":
            assert asked.body[0::3] == ["shutdown", "delay"]
            read, write = os.pipe()
            self.locks.append(read)
            os.set_blocking(read, False)
            sent = self._bus.send(Message.new_method_return(asked, "h", [0], [write]))
            sent.add_done_callback(lambda _: os.close(write))
            return True
        if asked.member == "Get" and asked.body == [_MANAGER, "InhibitDelayMaxUSec"]:
            return Message.new_method_return(asked, "v", [Variant("t", self.delay * 10**6)])
        if asked.member == "Get" and asked.body == [_MANAGER, "PreparingForShutdown"]:
            return Message.new_method_return(asked, "v", [Variant("b", self.shutdown)])
        if asked.member == "KillUnit":
            if self._reads is not None:
                self.delay = int(self._reads.read_text().rpartition("=")[2])
            return Message.new_method_return(asked)
        return None

    async def tell(self, *, shutdown: bool) -> None:
        """Announce that the machine is shutting down, or no longer is."""
        self.shutdown = shutdown
        await self._bus.send(Message.new_signal(_PATH, _MANAGER, "PrepareForShutdown", "b", [shutdown]))

    @property
    def is_held(self) -> bool:
        """Whether somebody holds a lock."""
        return any(_is_open(each) for each in self.locks)


def _is_open(read: int) -> bool:
    try:
        return os.read(read, 1) != b""
    except BlockingIOError:
        return True


class Bus:
    """The bus daemon."""

    def __init__(self, directory: Path) -> None:
        self.address = f"unix:path={directory / 'bus'}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        assert DAEMON is not None
        self._process = await asyncio.create_subprocess_exec(
            DAEMON, "--session", "--nofork", "--print-address", f"--address={self.address}", stdout=-1
        )
        assert self._process.stdout is not None and await self._process.stdout.readline()

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()
            self._process = None


@asynccontextmanager
async def connected(address: str, **how: Any) -> AsyncIterator[Logind]:
    """The stand-in, connected to a bus."""
    bus = await MessageBus(bus_address=address, negotiate_unix_fd=True).connect()
    logind = Logind(bus, **how)
    await logind.serve()
    try:
        yield logind
    finally:
        for each in logind.locks:
            os.close(each)
        if bus.connected:
            bus.disconnect()


async def _serve(address: str) -> None:
    async with connected(address):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
