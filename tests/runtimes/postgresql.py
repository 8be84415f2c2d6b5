"""A private PostgreSQL from Debian's programs, on a loopback port; the system's service is not used."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from tests.runtimes.require import Missing

USER = "temporal"
"""The role that owns everything in it."""
_OWNER = "postgres"
"""The user that runs it if the tests run as root, which PostgreSQL refuses; Debian's package makes that user."""


def programs() -> Path:
    """The directory of the newest `postgres`, `initdb` and `pg_ctl`; raises `Missing`."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise Missing("PostgreSQL is not installed: there is no /usr/lib/postgresql/*/bin/initdb")
    return found[-1].parent


class PostgreSQL:
    """One server, whose data survives its death. `close` ends it and removes the data.

    Tests kill it, but not the machine, so nothing is synced to the disk.
    """

    def __init__(self, claimed: Path, port: int) -> None:
        """Make an empty database, not yet started, for the instance that has claimed a directory. Raises `Missing`."""
        self._bin = programs()
        self.port = port
        self.password = secrets.token_hex(16)
        # Another user cannot reach into the claimed directory.
        self._directory = directory_of(claimed)
        self._data = self._directory / "data"
        self.log = self._directory / "log"
        self._as: list[str] = []
        self._directory.mkdir(mode=0o700)
        if os.geteuid() == 0:
            try:
                owner = pwd.getpwnam(_OWNER)
            except KeyError:
                raise Missing(f"PostgreSQL does not run as root, and there is no user {_OWNER}") from None
            os.chown(self._directory, owner.pw_uid, owner.pw_gid)
            self._as = _become(owner.pw_uid, owner.pw_gid)
        # In the directory that only its user and root can enter.
        (self._directory / "password").write_text(self.password)
        self._initialize()

    def _initialize(self) -> None:
        self._run(
            "initdb",
            *("--username", USER, "--auth", "scram-sha-256", "--pwfile", str(self._directory / "password")),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
        )
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\nunix_socket_directories = ''\n"
                "fsync = off\nmax_connections = 200\nshared_buffers = 64MB\n"
            )

    @property
    def pid(self) -> int:
        """The id of the main process, whose children serve connections."""
        return int((self._data / "postmaster.pid").read_text().splitlines()[0])

    def start(self) -> None:
        """Start it, and wait until it serves, which after a crash includes the replay of its log."""
        self._run("pg_ctl", "--log", str(self.log), "--wait", "--timeout", "120", "start")

    def restart(self) -> None:
        """End it as by a crash, which closes all connections, and start it again."""
        self._run("pg_ctl", "--mode", "immediate", "--wait", "stop")
        self.start()

    def begin_anew(self, programs: Path) -> None:
        """End it, and replace it by an empty one with another version's programs. Dumps are kept."""
        self._run("pg_ctl", "--mode", "fast", "--wait", "stop")
        shutil.rmtree(self._data)
        self._bin = programs
        self._initialize()
        self.start()

    def close(self) -> None:
        """End it, and remove its directory."""
        end(self._directory, self._bin)

    def dump(
        self,
        databases: tuple[str, ...],
        *,
        form: Literal["custom", "plain"] = "custom",
        programs: Path | None = None,
    ) -> dict[str, Path]:
        """Back up databases while they are in use; return the archive of each, or plain SQL for a reader.

        If another version will read them, `programs` are that version's.
        """
        archives = {name: self._directory / f"{name}.dump" for name in databases}
        for name, archive in archives.items():
            pg_dump = str(programs / "pg_dump") if programs else "pg_dump"
            self._run(pg_dump, *self._to(name), "--format", form, "--file", str(archive))
        return archives

    def restore(self, archives: dict[str, Path]) -> None:
        """Restore databases from a backup. There may be no connections to them."""
        for name, archive in archives.items():
            self._run("dropdb", "--if-exists", *self._to(), name)
            self._run("createdb", *self._to(), name)
            self._run("pg_restore", *self._to(name), "--exit-on-error", str(archive))

    def ask(self, database: str, statement: str) -> str:
        """The output of `psql` for a statement, without headings."""
        return self._run(
            "psql",
            *self._to(database),
            *("--no-psqlrc", "--tuples-only", "--no-align", "--command", statement),
        )

    def _to(self, database: str = "") -> list[str]:
        to = ["--host", "127.0.0.1", "--port", str(self.port), "--username", USER]
        return [*to, "--dbname", database] if database else to

    def _run(self, program: str, *arguments: str) -> str:
        environ = {"PATH": os.defpath, "LC_ALL": "C", "PGDATA": str(self._data), "PGPASSWORD": self.password}
        # Into a file: the server that pg_ctl starts would keep a pipe open.
        with (self._directory / "said").open("w+") as said:
            done = subprocess.run(
                [*self._as, str(self._bin / program), *arguments],
                cwd=self._directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                check=False,
                timeout=180,
            )
            said.seek(0)
            text = said.read()
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)} ends with {done.returncode}:\n{text}")
        return text


def directory_of(claimed: Path) -> Path:
    """The directory of the PostgreSQL of an instance that has claimed a directory."""
    return Path("/tmp", f"syncpod-postgresql-{os.geteuid()}-{claimed.name}")


def end(directory: Path, programs: Path) -> None:
    """End the server in `directory`, if it runs, and remove it."""
    with contextlib.suppress(FileNotFoundError):
        owner = directory.stat()
        other = _become(owner.st_uid, owner.st_gid) if os.geteuid() == 0 else []
        stop = ["--pgdata", str(directory / "data"), "--mode", "immediate", "--wait", "stop"]
        quiet = subprocess.DEVNULL
        command = [*other, str(programs / "pg_ctl"), *stop]
        subprocess.run(command, cwd="/", stdout=quiet, stderr=quiet, check=False, timeout=180)
        shutil.rmtree(directory)


def _become(uid: int, gid: int) -> list[str]:
    """The prefix of a command that another user shall run.

    `subprocess` could do that too, but only by a fork, in which gRPC would end the process.
    """
    return ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
