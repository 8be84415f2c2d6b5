"""A fleet's Temporal cluster as it is in production: PostgreSQL, and two servers that share four history shards.

Both servers have all four roles, and find each other through the database; alternatively, each role is a process of its
own. Clients use one address, at which a load balancer forwards to a live server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.runtimes import claim, postgresql
from tests.runtimes.ports import free_ports
from tests.runtimes.postgresql import PostgreSQL
from tests.runtimes.processes import Closing, Daemon, kill, processes
from tests.runtimes.require import Missing, cache_directory

ROOT = Path(__file__).resolve().parents[2]
VERSION = "1.32.2"
SHARDS = 4
ROLES = ("frontend", "history", "matching", "worker")
NAMESPACE = "default"
DATABASES = ("temporal", "temporal_visibility")
"""The databases that deploy/schema.sh makes."""
TOGETHER = {"s1": ROLES, "s2": ROLES}
"""Two servers, each with all roles."""
APART = {role: (role,) for role in ROLES}
"""Each role a process of its own."""
KIND = "cluster"


def server_programs() -> Path:
    """The directory of `temporal-server`, `temporal-sql-tool` and the schemas; raises `Missing`."""
    directory = Path(os.environ.get("SYNCPOD_TEMPORAL_SERVER") or cache_directory() / f"temporal-server-{VERSION}")
    for name in ("temporal-server", "temporal-sql-tool", "schema"):
        if not (directory / name).exists():
            raise Missing(f"there is no {directory / name}, which .ci/run builds")
    return directory


class Server(Daemon):
    """One Temporal server with some roles, on ports that it keeps."""

    def __init__(self, programs: Path, directory: Path, database: PostgreSQL, roles: tuple[str, ...]) -> None:
        """Prepare it without starting it."""
        directory.mkdir()
        self.roles = roles
        self.log = directory / "log"
        self._program = programs / "temporal-server"
        self._config = directory / "server.json"  # JSON is YAML
        ports = free_ports(2 * len(ROLES) + 2)
        self.http_port, self.metrics_port = ports.pop(), ports.pop()
        self._rpc = dict(zip(ROLES, ports[: len(ROLES)], strict=True))
        self.port = self._rpc["frontend"]
        self.address = f"127.0.0.1:{self.port}"
        members = dict(zip(ROLES, ports[len(ROLES) :], strict=True))
        self._config.write_text(json.dumps(self._settings(database, members), indent=1))
        self._config.chmod(0o600)

    def _settings(self, database: PostgreSQL, members: dict[str, int]) -> dict[str, Any]:
        def store(name: str, connections: int) -> dict[str, Any]:
            return {
                "sql": {
                    "pluginName": "postgres12",
                    "databaseName": name,
                    "connectAddr": f"127.0.0.1:{database.port}",
                    "connectProtocol": "tcp",
                    "user": postgresql.USER,
                    "password": database.password,
                    "maxConns": connections,
                    "maxIdleConns": connections,
                    "maxConnLifetime": "1h",
                }
            }

        def service(role: str) -> dict[str, Any]:
            rpc = {"grpcPort": self._rpc[role], "membershipPort": members[role], "bindOnLocalHost": True}
            return {"rpc": {**rpc, **({"httpPort": self.http_port} if role == "frontend" else {})}}

        return {
            "log": {"stdout": True, "level": "warn"},
            "persistence": {
                "defaultStore": "default",
                "visibilityStore": "visibility",
                "numHistoryShards": SHARDS,
                "datastores": {"default": store("temporal", 20), "visibility": store("temporal_visibility", 5)},
            },
            "global": {
                "membership": {"maxJoinDuration": "30s", "broadcastAddress": "127.0.0.1"},
                "metrics": {
                    "prometheus": {"timerType": "histogram", "listenAddress": f"127.0.0.1:{self.metrics_port}"}
                },
            },
            "services": {role: service(role) for role in ROLES},
            "clusterMetadata": {
                "enableGlobalNamespace": False,
                "failoverVersionIncrement": 10,
                "masterClusterName": "active",
                "currentClusterName": "active",
                "clusterInformation": {
                    "active": {
                        "enabled": True,
                        "initialFailoverVersion": 1,
                        "rpcName": "frontend",
                        "rpcAddress": self.address,
                    }
                },
            },
            "dcRedirectionPolicy": {"policy": "noop"},
            "dynamicConfigClient": {
                "filepath": str(ROOT / "deploy" / "fleet-dynamicconfig.yaml"),
                "pollInterval": "10s",
            },
        }

    @property
    def pid(self) -> int:
        """Its process id; raises RuntimeError while it is down."""
        if self._process is None:
            raise RuntimeError("the Temporal server is not running")
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself, as a server does that gets too little CPU at its start."""
        return self._process is not None and self._process.poll() is not None

    def become(self, programs: Path) -> None:
        """Use another version's program from the next start on."""
        self._program = programs / "temporal-server"

    def start(self) -> None:
        """Start it; `until_serving` waits for it."""
        command = [str(self._program), "--config-file", str(self._config), "--allow-no-auth", "start"]
        command += [word for role in self.roles for word in ("--service", role)]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "OTEL_"))}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._config.parent,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def until_serving(self) -> None:
        """Wait until its frontend reaches a history shard and the database; raises RuntimeError with its log."""
        self._until(self._answers)

    def until_listening(self) -> None:
        """Wait until each of its roles has a port, also one without a frontend; raises RuntimeError with its log."""
        self._until(self._listens)

    def _until(self, done: Callable[[], bool], *, patience: float = 120.0) -> None:
        deadline = time.monotonic() + patience
        while not done():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                end = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
                raise RuntimeError(f"the Temporal server did not start; the end of {self.log}:\n{end}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Send SIGTERM, and wait until it has ended."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        for role in self.roles:
            if role != "worker":  # a worker has no port for clients
                try:
                    socket.create_connection(("127.0.0.1", self._rpc[role]), timeout=1).close()
                except OSError:
                    return False
        return True

    def _answers(self) -> bool:
        about = f"http://127.0.0.1:{self.http_port}/api/v1/cluster-info"
        with contextlib.suppress(OSError), urllib.request.urlopen(about, timeout=10):
            return True
        return False


class TemporalCluster(Closing):
    """PostgreSQL and two servers, with the namespace. `close` ends all and removes every trace, as does `with`."""

    def __init__(self, owned: claim.Claim, parts: Mapping[str, tuple[str, ...]], programs: Path) -> None:
        """Make the databases, without starting servers. `parts` has the servers and their roles. Raises `Missing`."""
        self._claim = owned
        (database_port,) = free_ports(1)
        self.database = PostgreSQL(owned.directory, database_port)
        self.database.start()
        self.update_schema(programs)
        self.servers = tuple(
            Server(programs, owned.directory / name, self.database, roles) for name, roles in parts.items()
        )

    @classmethod
    def launch(cls, parts: Mapping[str, tuple[str, ...]] = TOGETHER, programs: Path | None = None) -> Self:
        """Remove the leftovers of interrupted runs, then start a cluster. Raises `Missing`.

        `programs` is the directory of another version than `server_programs`.
        """
        programs = programs or server_programs()
        clear()
        owned = claim.fresh(KIND)
        try:
            cluster = cls(owned, parts, programs)
            cluster.start()
        except BaseException:
            _end(owned.directory)
            owned.remove()
            raise
        return cluster

    def start(self) -> None:
        """Start the servers, and wait until all serve the namespace."""
        for server in self.servers:  # one after the other: on an empty database, both would write the cluster's record
            server.start()
            server.until_listening()
        frontends = [server for server in self.servers if "frontend" in server.roles]
        for server in frontends:
            server.until_serving()
        self._script("namespace.sh", TEMPORAL_ADDRESS=frontends[0].address, TEMPORAL_NAMESPACE=NAMESPACE)

    def update_schema(self, programs: Path) -> None:
        """Bring both databases up to the schemas of a version, as deploy/schema.sh does while servers run."""
        self._script(
            "schema.sh",
            programs,
            SCHEMA=str(programs / "schema"),
            SQL_PLUGIN="postgres12",
            SQL_HOST="127.0.0.1",
            SQL_PORT=str(self.database.port),
            SQL_USER=postgresql.USER,
            SQL_PASSWORD=self.database.password,
        )

    @property
    def frontends(self) -> list[int]:
        """The ports of the servers with a frontend."""
        return [server.port for server in self.servers if "frontend" in server.roles]

    def close(self) -> None:
        """End everything and remove it."""
        for server in self.servers:
            server.kill()
        self.database.close()
        self._claim.remove()

    def _script(self, name: str, *programs: Path, **settings: str) -> None:
        path = ":".join(map(str, (*programs, Path(sys.executable).parent, os.environ["PATH"])))
        environ = {**os.environ, "PATH": path, "TEMPORAL_CONFIG_FILE": os.devnull, **settings}
        command = ["/bin/sh", str(ROOT / "deploy" / name)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=180)
        if done.returncode:
            raise RuntimeError(f"deploy/{name}: {done.stdout}{done.stderr}")


def clear() -> None:
    """End and remove the leftovers of interrupted runs."""
    for abandoned in claim.abandoned(KIND):
        _end(abandoned.directory)
        abandoned.remove()


def _end(directory: Path) -> None:
    configs = {str(directory / name / "server.json") for name in (*TOGETHER, *APART)}
    kill(each.pid for each in processes() if each.program == "temporal-server" and configs & set(each.argv))
    postgresql.end(postgresql.directory_of(directory), postgresql.programs())


class Balancer:
    """One address before several frontends: each connection goes to one that accepts it, in turn."""

    def __init__(self, ports: list[int]) -> None:
        """Take the ports of the frontends, on loopback."""
        self._ports = ports
        self._server: asyncio.Server | None = None
        self._streams: set[asyncio.Task[None]] = set()
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = asyncio.create_task(self._serve(reader, writer))
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for _ in self._ports:
                self._ports.append(self._ports.pop(0))
                with contextlib.suppress(OSError):
                    behind = await asyncio.open_connection("127.0.0.1", self._ports[-1])
                    break
            else:
                return
            try:
                ways = [
                    asyncio.ensure_future(_pass(reader, behind[1])),
                    asyncio.ensure_future(_pass(behind[0], writer)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
            finally:
                behind[1].close()
        finally:
            writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
