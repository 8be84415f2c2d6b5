"""The embedded runtime's server: takes over an earlier server's pods from disk, then serves CRI v1 on a unix socket.

Read on in `calls/runtime_service.py` (the calls; those for streams and measurements are beside it), `sandboxes.py` and
`containers.py` (their work), `store.py` (the files on disk), and `port.py` (the interface to processes).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import grpc.aio

from protos.cri.v1 import api_pb2
from syncpod.kernel.http2_frames import GRPC_OPTIONS
from syncpod.kernel.listening import grpc_address, log_failed_accepts, why_unusable
from syncpod.kernel.ownership import NotOurs, require_ours
from syncpod.kernel.service_notification import notify_ready
from syncpod.runtime import host
from syncpod.runtime.calls.faults import Faults, NoFaults, ScriptedFaults
from syncpod.runtime.calls.handlers import handler
from syncpod.runtime.calls.image_service import ImageService
from syncpod.runtime.calls.lookup import Lookup
from syncpod.runtime.calls.runtime_service import RuntimeService
from syncpod.runtime.calls.statistics_calls import StatisticsCalls
from syncpod.runtime.calls.status import weaknesses
from syncpod.runtime.calls.stream_calls import StreamCalls
from syncpod.runtime.cgroups.limits import Cgroups
from syncpod.runtime.containers import Containers
from syncpod.runtime.images.inventory import ImageStore
from syncpod.runtime.processes.records import Level
from syncpod.runtime.processes.supervised import Supervised
from syncpod.runtime.sandboxes import Sandboxes, load_all
from syncpod.runtime.simulation.processes import Simulated
from syncpod.runtime.state import Runtime, log
from syncpod.runtime.streaming import StreamingServer

_MAX_MESSAGE: Final = 16 * 1024 * 1024
_MAX_OPEN_FILES: Final = 1024 * 1024
"""Maximum number of open files, enough for the containers of any machine. Some programs iterate over all numbers below
it."""
_MAX_PENDING: Final = 1_000_000
_GRACE_SECONDS: Final = 1.0
"""Seconds for running calls to end when the server stops."""


class CannotServe(Exception):
    """The server cannot start; the text is one sentence."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Settings:
    """The server's settings."""

    directory: Path
    """The absolute path of the state directory."""
    socket: Path
    """The absolute path of the socket."""
    simulated: bool


async def serve(settings: Settings, environ: Mapping[str, str]) -> None:
    """Serve until SIGTERM or SIGINT; containers keep running. Raises CannotServe."""
    if why := why_unusable(settings.socket):
        raise CannotServe(f"--socket: {settings.socket} {why}", 2)
    # This is for files that others use, such as missing directories to mount; our own files have explicit modes.
    os.umask(0o022)
    open_files = _raise_open_files()
    with _held(settings.directory):
        await _serve(settings, environ, open_files)


async def _serve(settings: Settings, environ: Mapping[str, str], open_files: int) -> None:
    log_failed_accepts(asyncio.get_running_loop())
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    runtime, faults, features = await _parts(settings, environ, open_files)
    containers = Containers(runtime)
    sandboxes = Sandboxes(runtime, containers)
    await load_all(runtime, sandboxes, containers)
    runtime.collect_roots()
    streaming = await StreamingServer.start()
    server = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", _MAX_MESSAGE),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
            *GRPC_OPTIONS,
            # By default gRPC answers calls beyond 1000 in its queue with CANCELLED, which clients do not expect.
            ("grpc.server.max_pending_requests", _MAX_PENDING),
            ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING),
        )
    )
    services = api_pb2.DESCRIPTOR.services_by_name
    lookup = Lookup(runtime, faults)
    server.add_generic_rpc_handlers(
        (
            handler(
                services["RuntimeService"],
                RuntimeService(runtime, sandboxes, containers, lookup, faults, features),
                StreamCalls(runtime, lookup, streaming),
                StatisticsCalls(runtime, lookup),
            ),
            handler(services["ImageService"], ImageService(runtime, faults)),
        )
    )
    with _listening(settings.socket, server):
        await server.start()
        print(f"embedded runtime at unix://{settings.socket} (pid {os.getpid()})", flush=True)  # noqa: T201
        notify_ready()
        await ended.wait()
        await server.stop(_GRACE_SECONDS)
        await streaming.close()
        await runtime.processes.close()


async def _parts(
    settings: Settings, environ: Mapping[str, str], open_files: int
) -> tuple[Runtime, Faults, api_pb2.RuntimeHandlerFeatures]:
    directory = settings.directory
    images = ImageStore(directory / "images")
    for problem in images.unreadable:
        log(problem)
    features = api_pb2.RuntimeHandlerFeatures()
    if settings.simulated:
        log("pods are simulated: nothing runs")
        restart = _restarter()
        runtime = Runtime(directory, Simulated(restart), host.look("simulated", environ), Cgroups(), images)
        return runtime, ScriptedFaults(directory / "faults", restart), features
    level, without_mounts = await Supervised.probe(directory)
    isolation = _LEVELS[level]
    features.recursive_read_only_mounts = isolation == "namespaces"
    log(_ISOLATION[isolation])
    runtime = Runtime(
        directory,
        Supervised(level=level, links=directory / "links", open_files=open_files),
        host.look(isolation, environ, without_mounts=without_mounts),
        Cgroups.find(),
        images,
    )
    for weakness in weaknesses(runtime):
        log(weakness)
    return runtime, NoFaults(), features


def _raise_open_files() -> int:
    """Raise the limit of open files, since each container needs several; return the former limit.

    Containers get the former limit, because programs may rely on it: `select` fails with large descriptors.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft


_ISOLATION: Final[Mapping[host.Isolation, str]] = {
    "namespaces": "no isolation but that of mounts: containers share the machine's processes, network and users",
    "plain": "no isolation: containers share the machine's files, processes, network and users",
}


_LEVELS: Final[Mapping[Level, host.Isolation]] = {
    Level.NAMESPACES: "namespaces",
    Level.USER_NAMESPACES: "namespaces",
    Level.PLAIN: "plain",
}


def _restarter() -> Callable[[], None]:
    """Return a function that ends this server at once, like kill -9, and starts it again with the same pid."""
    command = (sys.executable, *sys.orig_argv[1:])

    def restart() -> NoReturn:
        os.execv(command[0], command)

    return restart


@contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Lock the state directory for this process, making it with mode 0700 if missing. Raises CannotServe."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_ours(directory)
        directory.chmod(0o700)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except NotOurs as why:
        raise CannotServe(f"--state-dir: {directory}: {why}: name one that is this user's alone", 2) from why
    except OSError as error:
        raise CannotServe(f"--state-dir: {directory}: {error.strerror}: name one that can be written to", 2) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            raise CannotServe(
                f"--state-dir: {directory} is in use by the embedded runtime in process {holder or '(unknown)'}: "
                "one serves a directory",
                1,
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)


@contextmanager
def _listening(socket: Path, server: grpc.aio.Server) -> Iterator[None]:
    """Listen on a socket that only this user may use, and remove it afterwards. Raises CannotServe."""
    if os.path.lexists(socket):
        if not socket.is_socket():
            raise CannotServe(f"--socket: {socket} exists and is not a socket: name another, or remove it", 2)
        socket.unlink()
    before = os.umask(0o177)
    try:
        server.add_insecure_port(grpc_address(socket))
    except RuntimeError as error:
        raise CannotServe(f"--socket: cannot listen at {socket}: {_reason(socket)}", 2) from error
    finally:
        os.umask(before)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            socket.unlink()


def _reason(socket: Path) -> str:
    if not socket.parent.is_dir():
        return f"there is no directory {socket.parent}"
    return f"directory {socket.parent} cannot be written to"
