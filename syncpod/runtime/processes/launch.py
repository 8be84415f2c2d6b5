"""Turns a forked child into a container's process: everything between fork and exec.

The child reports on a pipe: one byte when it is ready for exec and waits for permission, and one sentence if the
program cannot run. If the program runs, exec closes the pipe.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import stat
import termios
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from syncpod.kernel import libc
from syncpod.runtime.port import PAUSE, ProcessSpec, StartFailed
from syncpod.runtime.processes import capabilities
from syncpod.runtime.processes.records import Level
from syncpod.runtime.root import rootfs

READY = b"."

Stdio = tuple[int, int, int]
Gate = Callable[[], None]


def fork(become: Callable[[Gate], NoReturn], *, go: int | None = None) -> tuple[int, int]:
    """Fork a child that runs `become`, and return its pid and the pipe on which it reports.

    `become` gets a gate, and calls it right before exec. With a `go` pipe, the gate reports READY and waits for a byte
    from that pipe. Any failure in the child is reported as a sentence and ends it. Raises OSError if the fork fails.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if pid:
        os.close(writing)
        return pid, reading

    def gate() -> None:
        if go is not None:
            os.write(writing, READY)
            if not os.read(go, 1):
                os._exit(0)  # The supervisor has died: the program must not run.

    try:
        _as_new_process()
        _die_with(parent)
        become(gate)
    except StartFailed as failure:
        sentence = str(failure)
    except OSError as error:
        sentence = f"cannot prepare the process: {error.filename or 'the kernel'}: {error.strerror}"
    except BaseException as error:  # noqa: BLE001 - the child must never return into its parent's code
        sentence = f"cannot prepare the process: {error!r}"
    os.write(writing, sentence.encode(errors="surrogateescape")[: select.PIPE_BUF])
    os._exit(127)


def run_main(gate: Gate, spec: ProcessSpec, level: Level, directory: Path, stdio: Stdio) -> NoReturn:
    """Become a container's main process. Raises StartFailed or OSError."""
    parent = os.getppid()
    _take_stdio(spec, stdio, terminal=spec.terminal)
    place(spec)
    cwd = spec.working_directory or "/"
    if level is not Level.PLAIN:
        user_namespace = level is Level.USER_NAMESPACES
        rootfs.enter(
            directory,
            spec.mounts,
            image=spec.root,
            read_only=spec.read_only_root,
            hostname=spec.hostname,
            user_namespace=user_namespace,
            cwd=cwd,
        )
    _become_user(spec)
    _change_directory(cwd)
    _die_with(parent)  # The kernel drops the request when the user changes.
    gate()
    if _is_pause(spec):
        _pause()
    _execute(spec.arguments, spec, terminal=spec.terminal)


def _is_pause(spec: ProcessSpec) -> bool:
    """Return whether the process is to be the built-in pause, because its root has no program of that name."""
    return spec.arguments == PAUSE and not spec.root and not os.path.lexists(PAUSE[0])


def _pause() -> NoReturn:
    """Act as Kubernetes' pause (build/pause/linux/pause.c): close all but the standard streams, and await a signal.

    Since it is built in, it needs neither a registry nor a program of the host.
    """
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    libc.name_process("pause")
    libc.title_process(PAUSE[0])
    number = signal.sigwait(ending)
    said = f"Shutting down, got signal: {signal.strsignal(number)}\n"
    os.write(2, said.encode())
    os._exit(0)


def run_command(
    spec: ProcessSpec, namespaces: list[tuple[int, int]], arguments: tuple[str, ...], stdio: Stdio, *, terminal: bool
) -> NoReturn:
    """Become a command in a container, set up like the main process, in these `namespaces` (descriptors and kinds)."""
    parent = os.getppid()
    _take_stdio(spec, stdio, terminal=terminal)
    place(spec)
    for descriptor, kind in namespaces:
        libc.setns(descriptor, kind)
    _become_user(spec)
    _change_directory(spec.working_directory or "/")
    _die_with(parent)
    _execute(arguments, spec, terminal=terminal)


def _as_new_process() -> None:
    """Reset the supervisor's signal handlers, and the signals that Python ignores."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.setsid()
    os.umask(0o022)


def _die_with(parent: int) -> None:
    """Request SIGKILL on the parent's death; exit if the parent has died already."""
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _take_stdio(spec: ProcessSpec, stdio: Stdio, *, terminal: bool) -> None:
    if terminal:
        fcntl.ioctl(stdio[0], termios.TIOCSCTTY, 0)
    others = spec.user is not None and spec.user.uid != os.geteuid()
    # These three descriptors may have low numbers themselves, so they are first duplicated to higher ones.
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10) for descriptor in stdio]
    for number, descriptor in enumerate(moved):
        is_device = stat.S_ISCHR(os.fstat(descriptor).st_mode)
        if others and spec.user is not None and (terminal or not is_device):
            with contextlib.suppress(PermissionError):  # without root, changing the user fails with a better message
                os.fchown(descriptor, spec.user.uid, -1)  # Otherwise the program could not open /dev/stdout.
        os.dup2(descriptor, number)
        os.close(descriptor)


def place(spec: ProcessSpec) -> None:
    """Enter the container's cgroups, and set its OOM score.

    Lowering the score needs CAP_SYS_RESOURCE; without it the score stays, as with containerd's
    `restrict_oom_score_adj`.
    """
    for path in spec.cgroup_procs:
        Path(path).write_text("0")
    if spec.oom_score_adj is not None:
        with contextlib.suppress(PermissionError):
            Path("/proc/self/oom_score_adj").write_text(str(spec.oom_score_adj))


def _become_user(spec: ProcessSpec) -> None:
    """Reduce the bounding set, while that is still allowed; then drop capabilities and change the user."""
    keep = None
    if spec.added_capabilities or spec.dropped_capabilities:
        try:
            keep = capabilities.kept(libc.permitted_capabilities(), spec.added_capabilities, spec.dropped_capabilities)
        except ValueError as error:
            raise StartFailed(str(error)) from error
        libc.prctl(libc.PR_CAP_AMBIENT, libc.PR_CAP_AMBIENT_CLEAR_ALL)
        capabilities.limit(keep)
    user = spec.user
    if user is not None and (user.uid, user.gid) != (os.geteuid(), os.getegid()):
        try:
            os.setgroups(user.groups)
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
        except OSError as error:
            raise StartFailed(f"cannot run as user {user.uid}, group {user.gid}: {error.strerror}") from error
    elif user is not None and set(user.groups) - {user.gid} != set(os.getgroups()) - {user.gid}:
        with contextlib.suppress(PermissionError):  # Without root the groups cannot change.
            os.setgroups(user.groups)
    if keep is not None:
        libc.set_capabilities(keep & libc.permitted_capabilities())
    if spec.no_new_privileges:
        libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)


def _change_directory(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise StartFailed(f'chdir to cwd ("{path}") set in config.json failed: {why}') from error


def _execute(arguments: tuple[str, ...], spec: ProcessSpec, *, terminal: bool) -> NoReturn:
    environment = dict(spec.environment)
    if terminal:
        environment.setdefault("TERM", "xterm")
    program = find_program(arguments[0], environment.get("PATH", ""))
    try:
        os.execve(program, arguments, environment)
    except OSError as error:
        raise StartFailed(f"exec {program}: {os.strerror(error.errno or 0).lower()}") from error
    except ValueError as error:
        raise StartFailed(f"exec {program}: an argument or a variable cannot be passed on: {error}") from error


def find_program(name: str, search_path: str) -> str:
    """Return the file for a program's name. Raises StartFailed in runc's words (Go's exec.LookPath)."""
    if "/" in name:
        problem = _not_executable(name)
        if problem:
            raise StartFailed(f'exec: "{name}": {problem}')
        return name
    for directory in search_path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        if name and not _not_executable(candidate):
            return candidate
    raise StartFailed(f'exec: "{name}": executable file not found in $PATH')


def _not_executable(path: str) -> str | None:
    """Return why a file cannot be executed; None if it can."""
    try:
        found = Path(path).stat()
    except OSError as error:
        return f"stat {path}: {os.strerror(error.errno or 0).lower()}"
    except ValueError:
        return f"stat {path}: {os.strerror(errno.EINVAL).lower()}"
    if stat.S_ISDIR(found.st_mode):
        return "is a directory"
    return None if os.access(path, os.X_OK) else "permission denied"
