"""Fault injection, before a call is served.

The server calls `before` for each call that concerns a pod. For real pods nothing happens; in simulated mode the pod's
scripts (:mod:`syncpod.runtime.simulation.script`) may delay the call, fail it, or crash the runtime.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn, Protocol

import grpc

from syncpod.kernel.atomic_file import replace_file
from syncpod.runtime.simulation.script import (
    PREFIX,
    CallScript,
    ScriptInvalid,
    check_scripts,
    container_script,
    pod_script,
)

_REMEMBERED_SECONDS: Final = 24 * 3600
_FORGETS_EVERY_SECONDS: Final = 3600


class CallFailed(Exception):
    """The call fails with this gRPC status, without any effect."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        """Fail with `message`."""
        super().__init__(message)
        self.code = code


class Faults(Protocol):
    """May delay or fail each call that concerns a pod."""

    async def before(self, call: str, annotations: Mapping[str, str], subject: str) -> None:
        """Wait until the call may proceed. The call has had no effect yet, and the client may still cancel it.

        `call` is the call's name in CRI, and `annotations` are the sandbox's. `subject` is the sandbox's uid, and for a
        container's call also a slash and the container's name. Raises CallFailed.
        """


class NoFaults:
    """The faults of real pods: none."""

    async def before(self, call: str, annotations: Mapping[str, str], subject: str) -> None:
        """Return at once: real pods have no faults."""


class ScriptedFaults:
    """Faults of simulated pods, from the scripts in a sandbox's annotations.

    The decision is deterministic: whether the n-th CreateContainer of a container fails depends only on the pod's uid,
    the container's name, the call and n. The counts survive the server: they are kept on disk until a day after the
    last call.
    """

    def __init__(self, directory: Path, restart: Callable[[], None]) -> None:
        """Keep counts in `directory`, which is made if missing; `restart` makes the runtime crash and restart."""
        self._directory = directory
        self._restart = restart
        directory.mkdir(mode=0o700, exist_ok=True)
        self._forget_old()

    async def before(self, call: str, annotations: Mapping[str, str], subject: str) -> None:
        """See Faults. RunPodSandbox with an invalid script is refused with INVALID_ARGUMENT."""
        if not any(key.startswith(PREFIX) for key in annotations):
            return
        uid, _, container = subject.partition("/")
        try:
            if call == "RunPodSandbox":
                check_scripts(annotations)
            scripts = [pod_script(annotations).calls]
            if container:
                scripts.insert(0, container_script(annotations, container).calls)
        except ScriptInvalid as error:
            raise CallFailed(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        concerned = [each for each in scripts if call in {*each.hang, *each.failure_rates, *each.restart_runtime}]
        if not concerned:
            return
        number = self._count(uid, f"{container}/{call}")
        for script in concerned:
            await self._obey(script, call, subject, number)

    async def _obey(self, script: CallScript, call: str, subject: str, number: int) -> None:
        if number < script.restart_runtime.get(call, 0):
            self._restart()
            await _until_cancelled()
        hang = script.hang.get(call)
        if hang is not None and (hang.times is None or number < hang.times):
            if hang.duration is None:
                await _until_cancelled()
            await asyncio.sleep(hang.duration / 1e9)
        failure = script.failure_rates.get(call)
        if failure is None or (failure.times is not None and number >= failure.times):
            return
        if draw(subject, call, number) < failure.rate:
            raise CallFailed(failure.code, failure.message or f"simulated failure of {call}, call {number + 1}")

    def _count(self, uid: str, what: str) -> int:
        """Count a call in the pod's file, before the call has any effect; return the number of earlier calls."""
        if time.monotonic() > self._forgets_at:
            self._forget_old()
        file = self._directory / f"{hashlib.sha256(uid.encode()).hexdigest()}.json"
        try:
            counts: dict[str, int] = json.loads(file.read_text())
        except FileNotFoundError:
            counts = {}
        number = counts.get(what, 0)
        replace_file(file, json.dumps({**counts, what: number + 1}), durable=False)
        return number

    def _forget_old(self) -> None:
        self._forgets_at = time.monotonic() + _FORGETS_EVERY_SECONDS
        for file in self._directory.iterdir():
            if file.stat().st_mtime < time.time() - _REMEMBERED_SECONDS:
                file.unlink()


def draw(subject: str, call: str, number: int) -> float:
    """Return the n-th call's pseudo-random number in [0, 1), which is always the same."""
    digest = hashlib.sha256("\0".join((subject, call, str(number))).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


async def _until_cancelled() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody resolves it")
