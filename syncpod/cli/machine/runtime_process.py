"""Finds, starts and ends the embedded runtime of ``up``, one per state directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from syncpod.cli.console import waiting
from syncpod.cli.failure import BAD_INPUT, BadInput, Failure
from syncpod.cli.machine.processes import cannot_run, end, last_lines, require_not_stopped, run_in_place, start_recorded
from syncpod.cli.machine.settings import kept_settings
from syncpod.cli.machine.state_directory import exclusive, prepare, runtime_log
from syncpod.cri import records
from syncpod.cri.client import CriClient
from syncpod.cri.endpoint import VARIABLE, NoRuntime, find_endpoint
from syncpod.cri.errors import CriError
from syncpod.kernel.listening import why_unusable
from syncpod.kernel.procfs import ProcessIdentity, identify, is_running
from syncpod.settings.kept import KeptSettings, write_kept_settings
from syncpod.settings.process_records import (
    RuntimeRecord,
    forget_runtime,
    recorded_runtime,
    running_runtime,
    write_runtime,
)
from syncpod.settings.table import RUNTIME_ENDPOINT

MODULE: Final = "syncpod.runtime"
"""The module that Python runs as the embedded runtime."""
_SOCKETS: Final = "syncpod-cri-"
"""The prefix of directories that are created only for a socket."""
READY_SECONDS = 120.0
"""How long a runtime may take until it answers. It is long, so that a slow runtime is not ended: on a busy machine, its
imports take longer than all else."""
_END_SECONDS: Final = 10.0


def directory(state_dir: Path) -> Path:
    """Return where the embedded runtime keeps its state."""
    return state_dir / "runtime"


def usual_socket(state_dir: Path) -> Path:
    """Return where the embedded runtime listens, unless gRPC cannot use that path."""
    return directory(state_dir) / "cri.sock"


def has_pods(state_dir: Path) -> bool:
    """Return whether the embedded runtime has sandboxes, running or not."""
    try:
        return any((directory(state_dir) / "sandboxes").iterdir())
    except OSError:
        return False


def is_kept(state_dir: Path) -> bool:
    """Return whether the node uses its embedded runtime: `up` has started that, it runs, or it has pods."""
    record = recorded_runtime(state_dir)
    return record is not None and (record.detached or is_running(record.process) or has_pods(state_dir))


def command(state_dir: Path, socket: Path, *, simulated: bool) -> list[str]:
    """Return the command line of the state directory's embedded runtime."""
    line = [sys.executable, "-P", "-m", MODULE, "--state-dir", str(directory(state_dir))]
    return [*line, "--socket", str(socket), *(["--simulate"] if simulated else [])]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the runtime: without credentials of clients, and with our Python at the end of PATH.

    Containers run this machine's programs, found on the runtime's PATH.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith(("TEMPORAL_", "OTEL_"))}
    return kept | {"PATH": f"{environ.get('PATH') or os.defpath}:{Path(sys.executable).parent}"}


def choose_socket(state_dir: Path) -> Path:
    """Return the path for the runtime's socket: that of its last start, else one in the runtime's directory.

    If gRPC cannot use that path, returns one in a new private directory below $XDG_RUNTIME_DIR or /tmp.
    """
    recorded = recorded_runtime(state_dir)
    if recorded is not None:
        before = Path(recorded.endpoint.removeprefix("unix://"))
        if _is_private(before.parent):
            return before
    usual = usual_socket(state_dir)
    if not (why := why_unusable(usual)):
        return usual
    for place in (os.environ.get("XDG_RUNTIME_DIR"), "/tmp"):
        if not place or why_unusable(Path(place) / f"{_SOCKETS}12345678" / usual.name):
            continue
        if os.access(place, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix=_SOCKETS, dir=place)) / usual.name
    raise BadInput(f"the socket {usual} of the state directory {why}")


def start(state_dir: Path, *, simulated: bool, environ: Mapping[str, str]) -> tuple[RuntimeRecord, bool]:
    """Start the state directory's embedded runtime if it does not run, and return once it answers.

    Returns its record, and whether it was started. Raises Failure with the last line of its log.
    """
    prepare(state_dir)
    log = runtime_log(state_dir)
    with exclusive(state_dir):
        running = running_runtime(state_dir)
        if running is not None:
            require_not_stopped("embedded runtime", running.process.pid)
        if running is not None and (_gets_ready(running) or is_running(running.process)):
            return running, False
        before, kept = recorded_runtime(state_dir), kept_settings(state_dir)
        socket = choose_socket(state_dir)
        if _answers(socket):
            raise Failure(
                f"an embedded runtime answers at {socket} that `syncpod` has not started: "
                f"end it, or name it with --runtime-endpoint"
            )
        record, ready, ended_here = None, False, False
        try:
            child, record = _launch(state_dir, socket, simulated=simulated, environ=environ)
            with waiting("waiting for the embedded runtime to answer"):
                ready = record is not None and _gets_ready(record)
        finally:
            if not ready:  # also after Ctrl-C or on a full disk
                ended_here = record is not None and child.poll() is None and end_process(record.process)
                if recorded_runtime(state_dir) != before:
                    _put_back(state_dir, before, kept)
    if record is not None and ready:
        return record, True
    said = next((line for line in reversed(last_lines(log, 20)) if line.strip()), "nothing")
    if ended_here:
        late = f"the embedded runtime has not answered for {READY_SECONDS:g} s, and was ended"
        raise Failure(f"{late}; the last line of {log}: {said}")
    raise Failure(f"the embedded runtime did not start: {said}", BAD_INPUT if child.wait() == BAD_INPUT else 1)


def _launch(
    state_dir: Path, socket: Path, *, simulated: bool, environ: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], RuntimeRecord | None]:
    """Start the runtime, and record it before it serves, so that other commands find it even if this one ends early.

    The record is None if the runtime has ended already.
    """

    def record_of(process: ProcessIdentity) -> RuntimeRecord:
        return RuntimeRecord(process, f"unix://{socket}", simulated, detached=True)

    child, process = start_recorded(
        command(state_dir, socket, simulated=simulated),
        lambda process: _note(state_dir, record_of(process)),
        log=runtime_log(state_dir),
        environment=environment(environ),
        umask=0o077,
    )
    return child, None if process is None else record_of(process)


def _gets_ready(record: RuntimeRecord) -> bool:
    """Return True as soon as a runtime answers; False if it ends first, or does not answer within READY_SECONDS."""
    socket, deadline = Path(record.endpoint.removeprefix("unix://")), time.monotonic() + READY_SECONDS
    while is_running(record.process) and time.monotonic() < deadline:
        if _answers(socket):
            return True
        time.sleep(0.02)
    # Try once more: this process may have been stalled, too.
    return is_running(record.process) and _answers(socket)


def _put_back(state_dir: Path, before: RuntimeRecord | None, kept: KeptSettings) -> None:
    """After the failed start of a runtime, restore the record of the earlier one, and the node's kept settings."""
    if before is None:
        forget_runtime(state_dir)
        return
    write_runtime(state_dir, before)
    if kept_settings(state_dir) != kept:
        write_kept_settings(state_dir, kept)


def load(state_dir: Path, files: Sequence[str], name: str, *, environ: Mapping[str, str]) -> None:
    """Load images for the embedded runtime, running or not. Raises Failure with the loader's message."""
    prepare(state_dir)
    line = [sys.executable, "-P", "-m", "syncpod.runtime.load", "--state-dir", str(directory(state_dir))]
    line += [*(["--name", name] if name else []), "--", *files]
    try:
        done = subprocess.run(line, env=environment(environ), stderr=subprocess.PIPE, errors="replace", check=False)
    except OSError as error:
        raise cannot_run(line[0], error) from None
    if done.returncode:
        said = done.stderr.strip() or f"the loader has ended with {done.returncode}"
        raise Failure(said, BAD_INPUT if done.returncode == BAD_INPUT else 1)


def become(state_dir: Path, socket: Path | None, *, simulated: bool, environ: Mapping[str, str]) -> None:
    """Replace this process by the embedded runtime, so that Ctrl-C reaches it directly.

    Raises Failure if it runs already, and BadInput if gRPC cannot use its socket's path.
    """
    if socket is not None and (why := why_unusable(socket)):
        raise BadInput(f"--socket: {socket} {why}")
    prepare(state_dir)
    with exclusive(state_dir):
        running = running_runtime(state_dir)
        if running is not None:
            raise Failure(
                f"the embedded runtime of {state_dir} runs already, at {running.endpoint} (pid {running.process.pid})"
            )
        where = socket or choose_socket(state_dir)
        me = identify(os.getpid())
        if me is None:
            raise Failure("/proc does not show this process")
        _note(state_dir, RuntimeRecord(me, f"unix://{where}", simulated, detached=False))
    line = command(state_dir, where, simulated=simulated)
    run_in_place(line, environment(environ))


def _note(state_dir: Path, record: RuntimeRecord) -> None:
    """Record the runtime that serves now. If its socket has moved, change the node's kept settings too."""
    before, kept = recorded_runtime(state_dir), kept_settings(state_dir)
    write_runtime(state_dir, record)
    if before is not None and kept.endpoint == before.endpoint != record.endpoint:
        variables = {**kept.variables, RUNTIME_ENDPOINT.variable: record.endpoint}
        write_kept_settings(state_dir, replace(kept, variables=variables))


def weaknesses(endpoint: str) -> tuple[str, ...]:
    """Return a sentence for each thing that an embedded runtime cannot do here; () if it does not answer."""
    return asyncio.run(_weaknesses(endpoint))


async def _weaknesses(endpoint: str) -> tuple[str, ...]:
    async with CriClient(endpoint) as runtime:
        try:
            return records.weaknesses((await runtime.status(verbose=True)).info)
        except CriError:  # the worker, which is started next, reports what is wrong
            return ()


def end_process(process: ProcessIdentity) -> bool:
    """End an embedded runtime; its containers keep running. Return whether it was running."""
    return end(process, patience_seconds=_END_SECONDS)


def forget(state_dir: Path) -> None:
    """Remove the record of a runtime that has ended, and the directory that was created only for its socket."""
    record = recorded_runtime(state_dir)
    if record is not None:
        socket = Path(record.endpoint.removeprefix("unix://"))
        if socket.parent.name.startswith(_SOCKETS) and _is_private(socket.parent):
            socket.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                socket.parent.rmdir()
    forget_runtime(state_dir)


def _answers(socket: Path) -> bool:
    try:
        find_endpoint({VARIABLE: str(socket)})
    except NoRuntime:
        return False
    return True


def _is_private(path: Path) -> bool:
    """Return whether a directory exists that only we may write to, so that a listener there is ours."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
