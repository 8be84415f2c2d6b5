"""Client of systemd's logind, which announces a shutdown over the system bus, and delays it on request.

Mirrors pkg/kubelet/nodeshutdown/systemd/inhibit_linux.go, v1.36. The bus needs the package dbus-fast, the extra
`syncpod[shutdown]`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncpod.kernel.os_errors import where_and_why

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

DROP_IN: Final = Path("etc/systemd/logind.conf.d/99-kubelet.conf")
"""The file in which a kubelet sets how long logind waits."""
_LOGIND: Final = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_SYSTEMD: Final = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_BUS: Final = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
_PROPERTIES: Final = "org.freedesktop.DBus.Properties"
_SIGNAL: Final = "PrepareForShutdown"
_MICROSECONDS: Final = 10**6
_SIGHUP: Final = 1
_CALL_SECONDS: Final = 10.0
"""Seconds that an answer may take."""
_LOOKS: Final = 5
_FIRST_LOOK_SECONDS: Final = 0.1
"""Seconds before the first of `_LOOKS` checks whether logind has read its configuration. Each later pause is twice as
long."""


class NoLogind(Exception):
    """The bus, its library or logind is missing, or logind refuses; the text says which."""


class Logind:
    """One connection to logind."""

    def __init__(self, bus: MessageBus, root: Path = Path("/")) -> None:
        """Call logind over `bus`; `root` is the directory of the machine's files."""
        self._bus, self._root = bus, root
        self.shutdowns: asyncio.Queue[bool | None] = asyncio.Queue()
        """True = a shutdown begins; False = it is called off; None = the connection is lost."""

    async def watch(self) -> None:
        """Subscribe to logind's signal, and put its values into `shutdowns`. Raises NoLogind."""
        from dbus_fast import MessageType

        _, path, interface = _LOGIND

        def take(message: Message) -> None:
            signal = message.interface, message.member, message.path
            if message.message_type is MessageType.SIGNAL and signal == (interface, _SIGNAL, path) and message.body:
                self.shutdowns.put_nowait(bool(message.body[0]))

        self._bus.add_message_handler(take)
        rule = f"type='signal',interface='{interface}',member='{_SIGNAL}',path='{path}'"
        await self._call(_BUS, "AddMatch", "s", [rule])

    async def lost(self) -> None:
        """Put None into `shutdowns` once the connection is lost."""
        with contextlib.suppress(OSError, EOFError):  # these also mean that the connection has ended
            await self._bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
        self.shutdowns.put_nowait(None)

    async def longest_delay(self) -> float:
        """Return how many seconds logind waits at most. Raises NoLogind."""
        return int(await self._property("InhibitDelayMaxUSec")) / _MICROSECONDS

    async def is_preparing(self) -> bool:
        """Say whether a shutdown has begun already: its signal may have been missed. Raises NoLogind."""
        return bool(await self._property("PreparingForShutdown"))

    async def _property(self, which: str) -> Any:
        name, path, interface = _LOGIND
        return (await self._call((name, path, _PROPERTIES), "Get", "ss", [interface, which])).body[0].value

    async def require_delay(self, seconds: float) -> None:
        """Make logind wait at least `seconds`: if its limit is lower, raise it, and reload logind. Raises NoLogind."""
        longest = await self.longest_delay()
        if longest >= seconds:
            return
        try:
            await asyncio.to_thread(self._configure, seconds)
        except OSError as error:
            raise NoLogind(
                f"logind waits for {longest:g} s, and cannot be configured: {where_and_why(error)}"
            ) from None
        await self._call(_SYSTEMD, "KillUnit", "ssi", ["systemd-logind.service", "all", _SIGHUP])
        for look in range(_LOOKS):
            await asyncio.sleep(_FIRST_LOOK_SECONDS * 2**look)
            longest = await self.longest_delay()
            if longest >= seconds:
                return
        raise NoLogind(
            f"logind waits for {longest:g} s, less than {seconds:g} s, although {self._root / DROP_IN} says so: "
            "another file there may say otherwise"
        )

    def _configure(self, seconds: float) -> None:
        path = self._root / DROP_IN
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        lines = ("# Written by the worker of this machine's pods.", "[Login]", f"InhibitDelayMaxSec={seconds:g}")
        path.write_text("".join(f"{line}\n" for line in lines))

    async def inhibit(self) -> int:
        """Make logind delay shutdowns until the returned descriptor is closed. Raises NoLogind."""
        arguments = ["shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"]
        answer = await self._call(_LOGIND, "Inhibit", "ssss", arguments)
        if not answer.unix_fds:
            raise NoLogind("logind has given no lock")
        return int(answer.unix_fds[answer.body[0]])

    async def _call(self, where: tuple[str, str, str], member: str, signature: str, body: list[Any]) -> Message:
        from dbus_fast import Message, MessageType

        destination, path, interface = where
        asked = Message(destination, path, interface, member, signature=signature, body=body)
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                answer = await self._bus.call(asked)
        except (OSError, EOFError, TimeoutError) as error:
            raise NoLogind(
                f"{destination} does not answer {member}: {where_and_why(error) or type(error).__name__}"
            ) from None
        if answer is None or answer.message_type is not MessageType.METHOD_RETURN:
            why = answer.body[0] if answer is not None and answer.body else "nothing is said"
            raise NoLogind(f"{destination} refuses {member}: {why}")
        return answer


@asynccontextmanager
async def logind(root: Path = Path("/")) -> AsyncIterator[Logind]:
    """Connect to logind over the system bus (`DBUS_SYSTEM_BUS_ADDRESS` names another). Raises NoLogind."""
    try:
        from dbus_fast import BusType
        from dbus_fast.aio import MessageBus
        from dbus_fast.errors import DBusError
    except ImportError:
        raise NoLogind("the package dbus-fast is not installed: pip install 'syncpod[shutdown]'") from None
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
    except (OSError, EOFError, TimeoutError, DBusError, ValueError) as error:
        raise NoLogind(f"the system bus cannot be reached: {where_and_why(error) or type(error).__name__}") from None
    made = Logind(bus, root)
    ends = asyncio.create_task(made.lost(), name="the system bus")
    try:
        await made.watch()
        yield made
    finally:
        ends.cancel()
        await asyncio.gather(ends, return_exceptions=True)
        if bus.connected:
            bus.disconnect()


def close(lock: int | None) -> None:
    """Close the descriptor of a lock, if there is one: logind no longer waits for this node."""
    if lock is not None:
        os.close(lock)
