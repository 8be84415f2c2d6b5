"""A network namespace of the run's own, in which cluster, node and pods have nothing of the machine's network."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.runtimes.require import Missing

ADDRESS: Final = "10.99.0.1"
"""The node's address, and the API server's."""
_PREFIX: Final = "syncpod-conf-"
_NAMESPACES: Final = Path("/run/netns")
NAME: Final = f"{_PREFIX}{os.getpid()}"
_BRIDGE: Final = "ext0"
_PORT: Final = ("ext0p", "ext0q")

WITHIN: Final = ("nsenter", f"--net={_NAMESPACES / NAME}")
"""Goes before a command; `ip netns exec` would also hide the cgroups' mounts."""


@contextlib.contextmanager
def network_namespace() -> Iterator[None]:
    """Make the namespace, with an address and a route over a bridge that is up, and remove it at the end.

    What runs in it at the end is killed, and so is what runs in those of runs that were killed. Raises
    CalledProcessError, `Missing` where this user may not make one.
    """
    if os.geteuid() != 0:
        raise Missing("a network namespace of one's own needs root")
    _clear_abandoned()
    _ip("netns", "add", NAME)
    try:
        _inside("link", "set", "lo", "up")
        _inside("link", "add", _BRIDGE, "type", "bridge")
        # A bridge without a port that is up has no carrier, and its route would not count.
        _inside("link", "add", _PORT[0], "type", "veth", "peer", "name", _PORT[1])
        _inside("link", "set", _PORT[0], "master", _BRIDGE)
        for device in (_BRIDGE, *_PORT):
            _inside("link", "set", device, "up")
        _inside("address", "add", f"{ADDRESS}/24", "dev", _BRIDGE)
        _inside("route", "add", "default", "via", ADDRESS, "dev", _BRIDGE)
        for key in ("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet"):
            subprocess.run([*WITHIN, "sh", "-c", f"echo 1 >/proc/sys/{key}"], check=True)
        yield
    finally:
        _remove(NAME)


def _clear_abandoned() -> None:
    names = [each.name for each in _NAMESPACES.glob(f"{_PREFIX}*")] if _NAMESPACES.is_dir() else []
    for name in names:
        if not Path("/proc", name.removeprefix(_PREFIX)).exists():
            _remove(name)


def _remove(name: str) -> None:
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout
    for pid in pids.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, stdin=subprocess.DEVNULL)


def _inside(*arguments: str) -> None:
    subprocess.run([*WITHIN, "ip", *arguments], check=True, stdin=subprocess.DEVNULL)
