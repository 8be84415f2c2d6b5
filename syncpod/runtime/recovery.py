"""Finds out whether a process runs or how it ended, at a server's start or after a kill. This may take a while.

No function here waits for ever, except for a process that is known to live.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

from syncpod.runtime import store
from syncpod.runtime.port import Exited, Process
from syncpod.runtime.state import Runtime, log, remove_directory

_ANSWER_SECONDS: Final = 5.0
"""Timeout of one `Processes.find`, which is then repeated. A call takes long only while a start is in progress."""
_PAUSES_SECONDS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 0.0)
"""Seconds to wait after each try; the machine may recover."""
_END_SECONDS: Final = 10.0
"""Seconds to wait after a kill for the report of the end: twice the time after which the supervisor itself is
killed."""


class FateUnknown(Exception):
    """The state of a process, or its end, cannot be found out; the text is the reason."""


async def find_process(runtime: Runtime, directory: Path) -> Process | Exited | None:
    """Return the result of `Processes.find`, retrying for up to a minute after errors of the machine.

    Raises FateUnknown.
    """
    why = ""
    for pause in _PAUSES_SECONDS:
        try:
            async with runtime.asking, asyncio.timeout(_ANSWER_SECONDS):
                return await runtime.processes.find(directory)
        except OSError as error:  # this may be a TimeoutError
            why = str(error) or "there is no answer"
            log(f"{directory}: what became of its process cannot be found out yet: {why}")
        except Exception as error:
            raise FateUnknown(f"{type(error).__name__}: {error}") from error
        await asyncio.sleep(pause)
    raise FateUnknown(why)


async def kill_what_runs(runtime: Runtime, directory: Path) -> None:
    """Kill the process that was started in `directory`, if it runs, and wait for its end; a failure is logged."""
    try:
        async with asyncio.timeout(_END_SECONDS):
            found = await runtime.processes.find(directory)
            if found is not None and not isinstance(found, Exited):
                found.kill()
                await found.wait()
    except Exception as error:  # noqa: BLE001 - records that cannot be read are expected here
        log(f"{directory}: its processes, if any, cannot be ended: {error!r}")


async def discard(runtime: Runtime, directory: Path, process: str) -> None:
    """Remove the directory of a sandbox or container that was half made or half removed, and kill its process.

    `process` is the name of the process's own directory in `directory`. If the state of the process cannot be found
    out, everything is left for the next server.
    """
    if (directory / process).exists():
        try:
            found = await find_process(runtime, directory / process)
        except FateUnknown as problem:
            log(f"{directory} is left for the next server: who runs there cannot be found out: {problem}")
            return
        if found is not None and not isinstance(found, Exited):
            found.kill()
            await found.wait()
    store.forget(directory)
    await remove_directory(runtime, directory)


async def end_after_kill(runtime: Runtime, watch: asyncio.Task[Any], directory: Path, started_at: int) -> Exited | None:
    """Wait for the end of a process that was killed. Return None if `watch` has reported it.

    If the process is gone and its watch has reported nothing, the watch is cancelled, and the end is returned: an
    unknown end if it could not be found out.
    """
    while not (await asyncio.wait({watch}, timeout=_END_SECONDS))[0]:
        try:
            async with asyncio.timeout(_END_SECONDS):
                found = await runtime.processes.find(directory)
        except Exception as error:  # noqa: BLE001 - it was killed, and its end cannot be found out
            found = unknown_end(f"its end cannot be found out: {error!r}", started_at)
        if watch.done():
            return None
        if found is None or isinstance(found, Exited):
            watch.cancel()
            return found or unknown_end("there is no trace of it", started_at)
    return None


def unknown_end(why: str, started_at: int = 0) -> Exited:
    """Return an end that was not observed, in containerd's words."""
    return Exited(255, "Unknown", why, started_at, time.time_ns())
