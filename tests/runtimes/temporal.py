"""A private, real Temporal dev server from the wheel that the project depends on, configured as by `syncpod up`.

Its database is a file, so the server can be killed and started again without loss.
"""

import contextlib
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Self

from syncpod.cli.machine import dev_server
from tests.patience import PATIENCE
from tests.runtimes import claim
from tests.runtimes.ports import free_ports
from tests.runtimes.processes import Daemon, kill, processes
from tests.runtimes.require import Missing


def temporal_program() -> Path:
    """The `temporal` program that the project depends on; raises `Missing`."""
    try:
        return dev_server.program()
    except dev_server.NoProgram as missing:
        raise Missing(str(missing)) from None


class DevServer(Daemon):
    """One running dev server with its web UI, on free ports of the loopback. `close` ends it, as does `with`."""

    namespace = dev_server.NAMESPACE

    def __init__(self, owned: claim.Claim, *, synced: bool) -> None:
        self._claim = owned
        self._synced = synced
        self.directory = owned.directory
        self.db = self.directory / "temporal.db"
        self.log = self.directory / "temporal.log"
        self.port, self.ui_port, self._http_port, self._metrics_port = free_ports(4)
        self.address = f"127.0.0.1:{self.port}"
        self.ui = f"http://127.0.0.1:{self.ui_port}"

    @classmethod
    def launch(cls, *, synced: bool = True) -> Self:
        """Remove the leftovers of interrupted runs, then start a server in a new directory.

        Without `synced`, a death of the server loses no acknowledged write, but a death of the machine may.
        """
        for abandoned in claim.abandoned("temporal"):
            _end(abandoned.directory)
            abandoned.remove()
        server = cls(claim.fresh("temporal"), synced=synced)
        try:
            server.start()
        except BaseException:
            server.close()
            raise
        return server

    @property
    def pid(self) -> int:
        """The server's process id; raises RuntimeError while it is down."""
        if self._process is None:
            raise RuntimeError("the Temporal server is not running")
        return self._process.pid

    def start(self, *, patience: float = PATIENCE) -> None:
        """Start the server on its database and wait until it serves its namespace."""
        command = dev_server.command(
            database=self.db,
            port=self.port,
            ui_port=self.ui_port,
            http_port=self._http_port,
            metrics_port=self._metrics_port,
        )
        if not self._synced:
            command[command.index("synchronous=FULL")] = "synchronous=OFF"
        is_new = not self.db.exists()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dev_server.environment(os.environ),
                cwd=self.db.parent,
                start_new_session=True,
            )
        deadline = time.monotonic() + patience
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                end = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
                raise RuntimeError(f"the Temporal server did not start; the end of {self.log}:\n{end}")
            time.sleep(0.05)
        if is_new:
            dev_server.drop_costly_indexes(self.db)

    def close(self) -> None:
        """End the server and remove its directory."""
        self.kill()
        self._claim.remove()

    def _serves(self) -> bool:
        """Query by HTTP, since the `temporal` program needs a quarter of a second of CPU time."""
        about = f"http://127.0.0.1:{self._http_port}/api/v1/namespaces/{self.namespace}"
        with contextlib.suppress(OSError), urllib.request.urlopen(about, timeout=10):
            return True
        return False


def _end(directory: Path) -> None:
    """Kill the server that runs in `directory`, if there is one."""
    servers = [each.pid for each in processes() if each.program == "temporal"]
    kill(pid for pid in servers if _directory_of(pid) == directory)


def _directory_of(pid: int) -> Path | None:
    """The working directory of a process, None if it has ended."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/cwd").readlink()
    return None
