"""Fault points: a worker of the tests kills itself with SIGKILL between two calls to the runtime.

The tests' workers (`tests/fork_server.py`) read ``SYNCPOD_FAULT_POINTS`` once, at their start. Without it they use the
plain CRI client, as ``worker.py`` always does. With it, there is a boundary before and after every call that changes
something in the runtime (`syncpod.cri.calls`). Boundaries are numbered from 1 and written to a file::

    SYNCPOD_FAULT_POINTS=record=/tmp/boundaries                      record every boundary
    SYNCPOD_FAULT_POINTS=record=/tmp/boundaries,pod=web              ... of the pod with that name only
    SYNCPOD_FAULT_POINTS=record=/tmp/boundaries,pod=web,kill=7       ... and die at the seventh

Each line of the file is a boundary in JSON: `ordinal`, `when` (`before` or `after`), `call`, `pod`, `container`. Lines
are appended, so the last one is the boundary at which the worker died.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import grpc.aio
from google.protobuf.message import Message
from typing_extensions import override

from syncpod.cri.calls import call_of
from syncpod.cri.client import CriClient
from syncpod.cri.errors import CriError
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.names import POD_NAME_LABEL

VARIABLE: Final = "SYNCPOD_FAULT_POINTS"

When = Literal["before", "after"]

_FORM: Final = f"{VARIABLE}: expected record=FILE, optionally with pod=NAME and kill=NUMBER (from 1)"

_Request = TypeVar("_Request", bound=Message)
_Answer = TypeVar("_Answer", bound=Message)


@dataclass(frozen=True)
class FaultPoints:
    """The parsed value of `SYNCPOD_FAULT_POINTS`."""

    record: Path
    """The file that every boundary is written to."""
    pod: str = ""
    """The name of the only pod whose boundaries count; "" = all calls, including those about no pod."""
    kill: int = 0
    """The ordinal of the boundary at which the process kills itself; 0 = none."""

    @classmethod
    def parse(cls, text: str) -> FaultPoints:
        """Read the variable's value. Raises SettingsInvalid."""
        found = dict(part.partition("=")[::2] for part in text.split(","))
        if not found.get("record") or found.keys() - {"record", "pod", "kill"}:
            raise SettingsInvalid(f"{_FORM}, got {text!r}")
        kill = found.get("kill", "0")
        if not re.fullmatch(r"[0-9]{1,6}", kill) or ("kill" in found and not int(kill)):
            raise SettingsInvalid(f"{_FORM}, got kill={kill}")
        return cls(record=Path(found["record"]), pod=found.get("pod", ""), kill=int(kill))


@dataclass(frozen=True)
class Boundary:
    """A moment before or after a call, as it is recorded."""

    ordinal: int
    when: When
    call: str
    """The name of the CRI call: `StartContainer`."""
    pod: str
    """Name of the pod; "" = the call is about none."""
    container: str
    """Name of the container; "" = the call is about none."""


def read_boundaries(record: Path) -> tuple[Boundary, ...]:
    """Read the recorded boundaries, oldest first; nothing if there is no file."""
    if not record.exists():
        return ()
    return tuple(Boundary(**json.loads(line)) for line in record.read_text().splitlines())


def cri_client(endpoint: str, environ: Mapping[str, str]) -> CriClient:
    """Return the worker's CRI client: the plain one, unless fault points are requested.

    Call it in a running event loop. Warns about fault points on standard error. Raises SettingsInvalid.
    """
    asked = environ.get(VARIABLE, "")
    if not asked:
        return CriClient(endpoint)
    points = FaultPoints.parse(asked)
    whose = f"pod {points.pod}" if points.pod else "all pods"
    fate = f", and this worker kills itself at number {points.kill}" if points.kill else ""
    sys.stderr.write(
        f"syncpod worker: WARNING: {VARIABLE} is set, which is for tests: calls for {whose} are written to "
        f"{points.record}{fate}\n"
    )
    sys.stderr.flush()
    return FaultPointClient(endpoint, points)


class FaultPointClient(CriClient):
    """The client with a boundary before and after each call that changes something."""

    def __init__(self, endpoint: str, points: FaultPoints) -> None:
        super().__init__(endpoint)
        self._points = points
        self._passed = 0
        self._record = os.open(points.record, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @override
    async def close(self) -> None:
        await super().close()
        os.close(self._record)

    @override
    async def _call_within(
        self,
        timeout: float | None,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Answer],
        request: _Request,
        **more: Any,
    ) -> _Answer:
        call = request.DESCRIPTOR.name.removesuffix("Request")
        if not call_of(call).changes:
            return await super()._call_within(timeout, method, request, **more)
        pod, container = await self._subject(request)
        self._pass("before", call, pod, container)
        try:
            answer = await super()._call_within(timeout, method, request, **more)
        except CriError:  # an error is an answer too; after a cancelled call there is no boundary
            self._pass("after", call, pod, container)
            raise
        self._pass("after", call, pod, container)
        return answer

    async def _subject(self, request: Any) -> tuple[str, str]:
        """Return the names of the pod and the container that a call is about, from the request or the runtime.

        Both are empty if the call is about neither, or about something that is gone.
        """
        fields = request.DESCRIPTOR.fields_by_name
        try:
            if "sandbox_config" in fields and request.HasField("sandbox_config"):
                container = request.config.metadata.name if "config" in fields else ""
                return request.sandbox_config.metadata.name, container
            if "config" in fields:
                return request.config.metadata.name, ""
            if "container_id" in fields:
                (listed,) = await self.list_containers(id=request.container_id)
                return listed.labels.get(POD_NAME_LABEL, ""), listed.name
            if "pod_sandbox_id" in fields:
                (sandbox,) = await self.list_pod_sandboxes(id=request.pod_sandbox_id)
                return sandbox.name, ""
        except (CriError, ValueError):
            return "", ""
        return "", ""

    def _pass(self, when: When, call: str, pod: str, container: str) -> None:
        """Assign a boundary its number, record it, and die there if it is the chosen one."""
        if self._points.pod not in ("", pod):
            return
        self._passed += 1
        line = json.dumps(asdict(Boundary(self._passed, when, call, pod, container)))
        os.write(self._record, f"{line}\n".encode())
        if self._passed == self._points.kill:
            os.kill(os.getpid(), signal.SIGKILL)
