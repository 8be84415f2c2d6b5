"""The network of the fleet: a bridge of this machine, and for each node a network namespace connected to it."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.runtimes import network
from tests.runtimes.processes import kill


class Wire:
    """One node's namespace and its link to the bridge. `remove` removes both, and ends all processes inside."""

    def __init__(self, bridge: str, name: str, place: ipaddress.IPv4Interface, gateway: str) -> None:
        """Make a namespace with this address, and connect it to the bridge. Raises RuntimeError."""
        self.namespace = f"{bridge}-{name}"
        self._outside = f"{bridge}{name}"
        self.address = str(place.ip)
        ip("netns", "add", self.namespace)
        ip("link", "add", self._outside, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        ip("link", "set", self._outside, "master", bridge, "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("address", "add", str(place), "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", gateway),
        ):
            ip("-netns", self.namespace, *words)

    @property
    def within(self) -> tuple[str, ...]:
        """The prefix of a command that is to run in the namespace. Only the network differs; mounts are shared."""
        return ("nsenter", f"--net=/run/netns/{self.namespace}")

    def cut(self) -> None:
        """Set the link down."""
        ip("link", "set", self._outside, "down")

    def mend(self) -> None:
        """Set the link up again."""
        ip("link", "set", self._outside, "up")

    def inside(self) -> frozenset[int]:
        """The ids of the processes in the namespace."""
        ours = Path("/run/netns", self.namespace).stat()
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # it has ended
                    theirs = (entry / "ns" / "net").stat()
                    if (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino):
                        found.add(int(entry.name))
        return frozenset(found)

    def forget_interfaces(self) -> None:
        """Remove the interfaces that pods' networks have left inside, as a reboot does."""
        listed = subprocess.run(
            ["ip", "-netns", self.namespace, "-oneline", "link"], capture_output=True, text=True, check=True
        ).stdout
        for line in listed.splitlines():
            name = line.split(":")[1].strip().partition("@")[0]
            if name not in ("lo", "eth0"):
                # The two ends of a pair disappear together, so some are gone by now.
                subprocess.run(
                    ["ip", "-netns", self.namespace, "link", "delete", name], capture_output=True, check=False
                )

    def remove(self) -> None:
        """End everything inside, and remove the namespace."""
        while pids := self.inside():
            kill(pids)
        subprocess.run(["ip", "link", "delete", self._outside], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "delete", self.namespace], capture_output=True, check=False)


class Network:
    """A bridge with an address of this machine, at which the fleet's gate listens."""

    def __init__(self) -> None:
        """Make the bridge, with a unique name and a free subnet. Raises RuntimeError."""
        self.bridge = f"sf{secrets.token_hex(3)}"
        self._subnet = network.free_subnet()
        self.address = str(self._subnet[1])
        self._wires: list[Wire] = []
        ip("link", "add", self.bridge, "type", "bridge")
        ip("address", "add", f"{self.address}/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def plug(self, name: str) -> Wire:
        """Make a node's namespace, and connect it to the bridge. Raises RuntimeError."""
        place = ipaddress.IPv4Interface(f"{self._subnet[len(self._wires) + 11]}/24")
        self._wires.append(Wire(self.bridge, name, place, self.address))
        return self._wires[-1]

    def remove(self) -> None:
        """Remove the namespaces, with all processes in them, and the bridge."""
        for wire in self._wires:
            wire.remove()
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True, check=False)


def ip(*words: str) -> None:
    """Run `ip`; raises RuntimeError with its message if it fails."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def run(within: Sequence[str], *command: str, environ: dict[str, str], stdin: str = "", seconds: float = 300) -> str:
    """Run a command in a namespace and return its output; raises RuntimeError with its message if it fails."""
    done = subprocess.run(
        [*within, *command], input=stdin, env=environ, capture_output=True, text=True, check=False, timeout=seconds
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ends with {done.returncode}: {done.stdout}{done.stderr}".strip())
    return done.stdout
