"""Network namespaces of the run, which isolate cluster, nodes and pods from the machine's network."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

from tests.runtimes.require import Missing

ADDRESS: Final = "10.99.0.1"
"""The address of the first node and of the API server."""
_PREFIX: Final = "syncpod-conf-"
_SECOND: Final = "syncpod-second-"
_NAMESPACES: Final = Path("/run/netns")
NAME: Final = f"{_PREFIX}{os.getpid()}"
_BRIDGE: Final = "ext0"
_PORT: Final = ("ext0p", "ext0q")
_CABLE: Final = ("eth0", "ext0n2")
"""The device of the second machine, and its other end at the bridge."""

WITHIN: Final = ("nsenter", f"--net={_NAMESPACES / NAME}")
"""The prefix of a command that runs in the namespace. Not `ip netns exec`, which would hide the cgroups' mounts."""


@dataclass(frozen=True)
class Host:
    """A machine of the cluster: its node's name, a network namespace, and its address there."""

    node: str
    namespace: str
    address: str

    @property
    def within(self) -> tuple[str, ...]:
        """The prefix of a command that runs in this namespace."""
        return ("nsenter", f"--net={_NAMESPACES / self.namespace}")


FIRST: Final = Host("n1", NAME, ADDRESS)
"""The machine of the first node and of the control plane."""
SECOND: Final = Host("n2", f"{_SECOND}{os.getpid()}", "10.99.0.2")


@contextlib.contextmanager
def network_namespace() -> Iterator[None]:
    """Provide the namespace during the block, with an address and a default route over a bridge.

    All processes in it are killed at the end. Namespaces of runs that were killed are removed in the same way. Raises
    CalledProcessError, and `Missing` if this user may not make one.
    """
    if os.geteuid() != 0:
        raise Missing("a network namespace of one's own needs root")
    _clear_abandoned()
    _ip("netns", "add", NAME)
    try:
        _inside("link", "set", "lo", "up")
        _inside("link", "add", _BRIDGE, "type", "bridge")
        # A bridge without an active port has no carrier, and its routes would be ignored.
        _inside("link", "add", _PORT[0], "type", "veth", "peer", "name", _PORT[1])
        _inside("link", "set", _PORT[0], "master", _BRIDGE)
        for device in (_BRIDGE, *_PORT):
            _inside("link", "set", device, "up")
        _inside("address", "add", f"{ADDRESS}/24", "dev", _BRIDGE)
        _inside("route", "add", "default", "via", ADDRESS, "dev", _BRIDGE)
        _forward(FIRST)
        yield
    finally:
        _remove(NAME)


@contextlib.contextmanager
def second_namespace() -> Iterator[None]:
    """Provide a second machine during the block, on the first one's bridge, with a default route to the first.

    All processes in it are killed at the end. Raises CalledProcessError.
    """
    _ip("netns", "add", SECOND.namespace)
    try:
        inside, outside = _CABLE
        _inside("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", SECOND.namespace)
        _inside("link", "set", outside, "master", _BRIDGE, "up")
        # A packet of the second machine to a Service here may have to return to a pod on the second machine.
        _inside("link", "set", outside, "type", "bridge_slave", "hairpin", "on")
        for device in ("lo", inside):
            _inside("link", "set", device, "up", host=SECOND)
        _inside("address", "add", f"{SECOND.address}/24", "dev", inside, host=SECOND)
        _inside("route", "add", "default", "via", FIRST.address, "dev", inside, host=SECOND)
        _forward(SECOND)
        yield
    finally:
        _remove(SECOND.namespace)


def join_pod_networks(first: IPv4Network | IPv6Network, second: IPv4Network | IPv6Network) -> None:
    """Add a route from the first machine to the second one's pods. The other way, the default route suffices.

    Raises CalledProcessError, and ValueError if the networks overlap.
    """
    if first.overlaps(second):
        raise ValueError(f"the pods of both nodes would have addresses of {first}: start the run again")
    _inside("route", "add", str(second), "via", SECOND.address)


def _clear_abandoned() -> None:
    for prefix in (_PREFIX, _SECOND):
        names = [each.name for each in _NAMESPACES.glob(f"{prefix}*")] if _NAMESPACES.is_dir() else []
        for name in names:
            if not Path("/proc", name.removeprefix(prefix)).exists():
                _remove(name)


def _remove(name: str) -> None:
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout
    for pid in pids.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, stdin=subprocess.DEVNULL)


def _inside(*arguments: str, host: Host = FIRST) -> None:
    subprocess.run([*host.within, "ip", *arguments], check=True, stdin=subprocess.DEVNULL)


def _forward(host: Host) -> None:
    """Have a machine forward packets, including those that Services redirect to its loopback address."""
    for key in ("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet"):
        subprocess.run([*host.within, "sh", "-c", f"echo 1 >/proc/sys/{key}"], check=True)
