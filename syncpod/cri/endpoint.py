"""Finds the socket of the container runtime."""

from __future__ import annotations

import socket
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from syncpod.kernel.listening import why_unusable

VARIABLE: Final = "CONTAINER_RUNTIME_ENDPOINT"
"""Environment variable that names the socket, as crictl reads it: `unix:///path` or a path."""

_FLAG: Final = "--runtime-endpoint"
"""The flag that overrides the variable."""

WELL_KNOWN: Final = ("/run/containerd/containerd.sock", "/run/crio/crio.sock")
"""The sockets at which containerd and CRI-O listen by default."""

_PATIENCE_SECONDS = 1.0


class NoRuntime(Exception):
    """No socket accepts a connection. The text is one sentence with each socket and the reason.

    `tried` has the path and the reason of each, in order. `permission_denied` is True if a socket exists but is closed
    to this user; `refused` is True if a socket exists and nothing listens on it, so that its runtime may be about to
    start.
    """

    def __init__(self, tried: tuple[tuple[str, str], ...], *, asked_for: bool = False) -> None:
        self.tried = tried
        self.permission_denied = any(reason == _DENIED for _, reason in tried)
        self.refused = any(reason in (_REFUSED, _BUSY) for _, reason in tried)
        sockets = ", ".join(f"{path} ({reason})" for path, reason in tried)
        if asked_for:
            sockets = f"{sockets}, which {_FLAG} or {VARIABLE} names"
        if self.permission_denied:
            remedy = "run as root or join the group that owns the socket"
            if not asked_for:
                remedy = f"{remedy}, or start the embedded one, which needs neither: `syncpod runtime`"
        elif asked_for:
            remedy = "start the runtime or correct its name"
        else:
            remedy = (
                f"start containerd or CRI-O, or name another one's socket in {VARIABLE}; `syncpod runtime` starts the "
                "embedded one"
            )
        super().__init__(f"no container runtime at {sockets}: {remedy}")


_DENIED = "permission denied"
_REFUSED = "connection refused: nothing listens there any more"
_BUSY = "accepts no connections"


def candidates(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of the sockets to try, in order.

    If the variable names a socket, that is the only one: a user who names a runtime does not want pods on another.
    Otherwise the well-known sockets are tried. Raises ValueError for an endpoint that is not a unix socket.
    """
    named = environ.get(VARIABLE, "")
    return (socket_path(named),) if named else WELL_KNOWN


def find_endpoint(environ: Mapping[str, str]) -> str:
    """Return `unix:///path` of the first candidate that accepts a connection.

    The listener is not checked: it may be no runtime. Raises NoRuntime if no candidate accepts one, and ValueError as
    `candidates` does.
    """
    tried: list[tuple[str, str]] = []
    for path in candidates(environ):
        obstacle = _obstacle(path)
        if obstacle is None:
            return f"unix://{path}"
        tried.append((path, obstacle))
    raise NoRuntime(tuple(tried), asked_for=bool(environ.get(VARIABLE)))


def socket_path(endpoint: str) -> str:
    """Return the path of an endpoint: `unix:///path`, or the path alone.

    Raises ValueError for other schemes, relative paths, and paths that gRPC cannot use.
    """
    scheme, separator, path = endpoint.partition("://")
    if not separator:
        path = endpoint
    elif scheme != "unix":
        raise ValueError(f"{endpoint}: a runtime is reached through a unix socket, unix:///path")
    if not path.startswith("/"):
        raise ValueError(f"{endpoint}: must be an absolute path, unix:///path")
    if why := why_unusable(path):
        raise ValueError(f"{endpoint} {why}")
    return path


def _obstacle(path: str) -> str | None:
    """Return why a connection to `path` fails; None if it succeeds."""
    try:
        if not stat.S_ISSOCK(Path(path).stat().st_mode):
            return "not a socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_PATIENCE_SECONDS)
            connection.connect(path)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except PermissionError:
        return _DENIED
    except ConnectionRefusedError:
        return _REFUSED
    except (BlockingIOError, TimeoutError):
        return _BUSY
    except OSError as error:
        return error.strerror or str(error)
    return None


def listener_pid(endpoint: str) -> int:
    """Return the pid of the process that listens at an endpoint; 0 if it is in another pid namespace.

    Blocks. Raises OSError if nothing listens.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE_SECONDS)
        probe.connect(socket_path(endpoint))
        size = struct.calcsize("3i")
        pid: int = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
    return pid
