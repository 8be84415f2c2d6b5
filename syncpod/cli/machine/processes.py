"""Starts processes that outlive the command, each in its own session, and ends them by verified identity."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from syncpod.cli.failure import BadInput, Failure
from syncpod.kernel.os_errors import is_of_the_machine, sentence_of
from syncpod.kernel.procfs import ProcessIdentity, identify, is_running, process_stat

LOG_LIMIT = 16 * 1024 * 1024
"""The size in bytes above which a log is renamed to ``.old`` when its process is started again."""

_LOOK_SECONDS: Final = 0.5
_LAST_SECONDS: Final = 3.0
"""How long to wait for the last threads of a process that is ending."""
_STOPPED: Final = ("T", "t")
"""The states of a stopped process (proc_pid_stat(5)): by a signal, and by a debugger."""
_UNRECORDED_SECONDS: Final = 10.0
"""How long a process that could not be recorded may take to end, before it is killed."""
_ROOT: Final = Path("/")
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def require_not_stopped(what: str, pid: int) -> None:
    """Raise Failure if a signal or a debugger has stopped a process: it lives, but answers nothing."""
    stat = process_stat(pid)
    if stat is not None and stat.state in _STOPPED:
        raise Failure(f"the {what} (pid {pid}) is stopped: `kill -CONT {pid}` lets it go on")


def end(process: ProcessIdentity, *, patience_seconds: float) -> bool:
    """Send SIGTERM to a process, and SIGKILL after `patience_seconds`; return whether the process was still there.

    A pidfd is opened before its identity is verified, so that no other process is signalled. A process of another user
    is left alone: we cannot have started it, even if a record has it.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_running(process) or not _is_this_users(process.pid):
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
            if not _has_ended(handle, process, patience_seconds):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                _has_ended(handle, process, patience_seconds)
        return True
    finally:
        os.close(handle)


def _has_ended(handle: int, process: ProcessIdentity, seconds: float) -> bool:
    """Wait until a process ends, at most `seconds`; return whether it has ended.

    While a thread of an ending process waits for a hanging disk, the kernel does not report the end, or close the
    process's files. Nothing of the process runs then, so it counts as ended.
    """
    until = time.monotonic() + seconds
    while not select.select([handle], [], [], min(_LOOK_SECONDS, seconds))[0]:
        if not is_running(process):
            select.select([handle], [], [], _LAST_SECONDS)
            return True
        if time.monotonic() >= until:
            return False
    return True


def _is_this_users(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def start_detached(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    directory: Path = _ROOT,
    keep: Sequence[int] = (),
    umask: int = -1,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, with its output in `log`; it inherits the descriptors `keep`.

    It runs in `directory`. Ctrl-C in this terminal does not reach it. A `umask` of -1 means ours. Raises BadInput if
    the program cannot be run.
    """
    with contextlib.suppress(FileNotFoundError):
        if log.lstat().st_size > LOG_LIMIT:
            log.replace(log.with_name(f"{log.name}.old"))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd=directory,
            start_new_session=True,
            pass_fds=keep,
            umask=umask,
        )
    except OSError as error:
        raise cannot_run(command[0], error) from None
    finally:
        os.close(output)


def start_recorded(
    command: Sequence[str],
    record: Callable[[ProcessIdentity], None],
    *,
    log: Path,
    environment: Mapping[str, str],
    directory: Path = _ROOT,
    keep: Sequence[int] = (),
    umask: int = -1,
) -> tuple[subprocess.Popen[bytes], ProcessIdentity | None]:
    """Start a process as `start_detached` does, and call `record` with its identity before anything else happens.

    No command would find a process without a record: if `record` raises, as on a full disk, the process is ended first.
    If the process has ended already, the identity is None, and nothing is recorded. If this command is killed between
    start and record, the next command ends the process (`end_unrecorded`).
    """
    with signals_held_back():
        child = start_detached(command, log=log, environment=environment, directory=directory, keep=keep, umask=umask)
        process = identify(child.pid)
        if process is not None:
            try:
                record(process)
            except BaseException:
                end(process, patience_seconds=_UNRECORDED_SECONDS)
                child.poll()
                raise
    return child, process


def end_unrecorded(log: Path, word: str) -> list[int]:
    """End each process that was started with this log, and return their pids.

    It is called if no live process is recorded for the log. A process has no record if its command was killed just
    after the start, or if the record was lost. A process is ours if this user runs it, it leads its session, its output
    is the log, and `word` is in its command line. Its children, such as a runtime's supervisors, lack that word.
    """
    try:
        output = log.stat()
    except FileNotFoundError:
        return []
    ended = []
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()):
        process = identify(pid) if _is_started_with(pid, output, word) else None
        if process is not None and end(process, patience_seconds=_UNRECORDED_SECONDS):
            ended.append(pid)
    return ended


def _is_started_with(pid: int, output: os.stat_result, word: str) -> bool:
    try:
        own = Path(f"/proc/{pid}")
        return (
            own.stat().st_uid == os.geteuid()
            and os.getsid(pid) == pid
            and os.path.samestat((own / "fd/1").stat(), output)
            and word.encode() in (own / "cmdline").read_bytes().split(b"\0")
        )
    except OSError:  # it has ended, or has no output
        return False


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Hold back SIGINT, SIGTERM and SIGHUP during the block, and deliver them after it.

    A process that outlives this one is started and recorded within the block, since no command finds it without the
    record. The new process has the default actions; signals that are ignored here stay ignored. For the main thread
    only.
    """
    held: list[int] = []

    def hold(number: int, _: object) -> None:
        held.append(number)

    handled = [number for number in _ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, hold) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in held:
            signal.raise_signal(late)


def run_in_place(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program. Raises BadInput if the program cannot be run."""
    try:
        os.execve(command[0], list(command), environment)
    except OSError as error:
        raise cannot_run(command[0], error) from None


def cannot_run(path: str, error: OSError) -> BadInput:
    """Return the failure to run a program of our environment: Python itself, or a program beside it."""
    what = f"the program {path!r}" if path else "this Python, whose own path is not known,"
    if is_of_the_machine(error) and error.errno not in (errno.ENOENT, errno.EACCES):
        return BadInput(f"{what} cannot be run: {sentence_of(error)}")
    return BadInput(f"{what} cannot be run: {error.strerror}; run syncpod from a complete environment")


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last lines of a log, for an error message; none if there is no log."""
    try:
        return log.read_text(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


def size_of(log: Path) -> int:
    """Return a log's size in bytes; 0 if there is none."""
    return log.stat().st_size if log.exists() else 0


def since(log: Path, begin: int) -> str:
    """Return the text after the first `begin` bytes of a log; the whole log if it was rotated meanwhile."""
    with log.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(begin if begin <= size else 0)
        return file.read().decode(errors="replace")
