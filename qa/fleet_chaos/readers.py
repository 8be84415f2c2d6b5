"""Unauthorized readers: of the traffic between nodes and gate, and of the fleet's database."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Final, Self

from qa.fleet_chaos.evidence import containing
from qa.fleet_chaos.headquarters import Headquarters
from qa.fleet_chaos.pods import COMMAND, NOWHERE, SECRET
from tests.runtimes.images import BUSYBOX
from tests.runtimes.temporal_cluster import DATABASES

SIGNS: Final = (SECRET, COMMAND, BUSYBOX, NOWHERE, "terminationGracePeriodSeconds", "imagePullPolicy", "PLANTED_ENV")
"""Texts that occur in specs of this fleet, and nowhere else."""


class Eavesdropper:
    """tcpdump on the bridge, which carries all traffic between nodes and gate."""

    def __init__(self, bridge: str, file: Path) -> None:
        """Capture from now on, into the file. Raises RuntimeError if tcpdump ends."""
        self._file = file
        command = ["tcpdump", "-i", bridge, "-s", "0", "-U", "-Z", "root", "-w", str(file)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not file.exists():
            if self._process.poll() is not None:
                raise RuntimeError(f"tcpdump ended with {self._process.returncode}")
            time.sleep(0.05)

    def end(self) -> bytes:
        """End tcpdump, and return everything that it captured."""
        self._process.terminate()
        self._process.wait(30)
        return self._file.read_bytes() if self._file.exists() else b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def read_wire(heard: bytes, server_name: str) -> tuple[str, list[str]]:
    """Search a capture for texts of specs: one phrase about it, and the violations.

    The gate's name must be in it, which proves that traffic was captured.
    """
    wrong = [f"eavesdropper: reads {sign}" for sign in containing(heard, SIGNS)]
    if not containing(heard, [server_name]):
        wrong.append(f"eavesdropper: heard nothing: not even {server_name}, which a handshake shows")
    return f"{len(heard)} bytes between nodes and gate; {heard.count(server_name.encode())} handshakes", wrong


def read_database(headquarters: Headquarters, node: str) -> tuple[str, list[str]]:
    """Search dumps of both databases in the same way; a workflow id with the node's name must be in them."""
    archives = headquarters.cluster.database.dump(DATABASES, form="plain")
    read = b"".join(archive.read_bytes() for archive in archives.values())
    wrong = [f"reader of the database: reads {sign}" for sign in containing(read, SIGNS)]
    if not containing(read, [f"fleet-node/{node}"]):
        wrong.append(f"reader of the database: finds not even fleet-node/{node}")
    return f"{len(read)} bytes of dumps", wrong
