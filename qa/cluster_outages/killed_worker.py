"""The node's worker, which kills itself with SIGKILL at one point of its work.

A point is the moment before or after a call that changes something in the runtime or at the API server, and the moment
before a file of a pod is made, renamed or removed. Points are counted while the file ``DIRECTORY/armed`` exists::

    SYNCPOD_KILLED=DIRECTORY       points are written to DIRECTORY/points, one a line
    SYNCPOD_KILLED=DIRECTORY,7     ... and the worker kills itself at the seventh

`qa/fault_points.py` does the same for calls to the runtime only, in the tests' workers.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from syncpod.agent.kubernetes import followed_token
from syncpod.cri.calls import call_of
from syncpod.cri.client import CriClient
from syncpod.kubernetes.client import ApiClient

VARIABLE: Final = "SYNCPOD_KILLED"
_OF_A_POD: Final = ("/pods/", "/token")
_FILES: Final = ("os.rename", "os.symlink", "os.mkdir", "os.remove", "os.rmdir", "os.link")


class Points:
    """The points of one worker."""

    def __init__(self, directory: Path, kill: int) -> None:
        """Write points to `directory`, and kill this process at number `kill`; 0 = at none."""
        self._armed, self._kill, self._count = str(directory / "armed"), kill, 0
        self._record = os.open(directory / "points", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def passed(self, what: str) -> None:
        """Count one point, and kill this process if it is the chosen one."""
        if not os.path.exists(self._armed):  # noqa: PTH110  # pathlib would raise an audit event of its own
            return
        self._count += 1
        os.write(self._record, f"{self._count} {what}\n".encode())
        if self._count == self._kill:
            os.kill(os.getpid(), signal.SIGKILL)


def count(points: Points) -> None:
    """Count points in calls of the CRI client and the API server's client, and in changes of pods' files."""
    call_within, ask = CriClient._call_within, ApiClient.ask

    async def counted_call(self: Any, timeout: Any, method: Any, request: Any, **more: Any) -> Any:
        name = request.DESCRIPTOR.name.removesuffix("Request")
        if not call_of(name).changes:
            return await call_within(self, timeout, method, request, **more)
        points.passed(f"before {name}")
        try:
            return await call_within(self, timeout, method, request, **more)
        finally:
            points.passed(f"after {name}")

    async def counted_ask(self: Any, method: Any, path: str, **more: Any) -> Any:
        if method == "GET" or not any(part in path for part in _OF_A_POD):
            return await ask(self, method, path, **more)
        what = f"{method} {path.rpartition('/')[2]}"
        points.passed(f"before {what}")
        try:
            return await ask(self, method, path, **more)
        finally:
            points.passed(f"after {what}")

    def audited(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FILES and any(part in str(arguments[0]) for part in ("/pods/", "syncpod-outages-")):
            points.passed(event)

    CriClient._call_within = counted_call  # type: ignore[method-assign]
    ApiClient.ask = counted_ask  # type: ignore[method-assign]
    sys.addaudithook(audited)


def hurry(directory: Path) -> None:
    """Replace tokens as soon as the file ``rotate`` exists. Otherwise a token lives at least ten minutes."""
    rotate, due = directory / "rotate", followed_token.FollowedToken._due

    def due_now(self: Any, held: Any) -> Any:
        if rotate.exists():
            rotate.unlink()
            return None
        return due(self, held)

    followed_token.LOOK_SECONDS = 0.2  # type: ignore[misc]
    followed_token.FollowedToken._due = due_now  # type: ignore[method-assign]


def main() -> int:
    """Serve as ``worker.py`` does, until the chosen point is reached."""
    import worker

    directory, _, kill = os.environ[VARIABLE].partition(",")
    count(Points(Path(directory), int(kill or 0)))
    hurry(Path(directory))
    return worker.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
