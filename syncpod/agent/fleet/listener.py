"""Runs the process of the node's endpoint while the node belongs to a fleet and its settings name an address."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from syncpod.agent.background import cancel_all
from syncpod.settings.membership import read_listening, read_membership
from syncpod.settings.values import SettingsInvalid

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""Seconds between two checks whether, and where, the node must listen."""
_RETRY_SECONDS: Final = (2.0, 10.0, 30.0)
_TERM_SECONDS: Final = 10.0
_LINE_BYTES: Final = 64 * 1024


class ListenerProcess:
    """Runs the process, and restarts it if it ends. All methods belong to one event loop."""

    def __init__(self, state_dir: Path, node: str, runtime: str, environment: Mapping[str, str]) -> None:
        """`runtime` is the address of the node's runtime; the process and its commands get `environment`."""
        self._state_dir, self._node, self._runtime = state_dir, node, runtime
        self._environment = dict(environment)
        self.address = ""
        """The address at which it listens now, ``host:port``; "" = none."""

    async def run(self) -> None:
        """Run the process as the state directory requires, until cancelled."""
        failures = 0
        while True:
            wanted = await asyncio.to_thread(self._wanted)
            if wanted is not None and await self._keep(wanted):
                failures += 1
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS)) - 1])
            else:
                failures = 0
                await asyncio.sleep(LOOK_SECONDS)

    def _wanted(self) -> tuple[str, str] | None:
        """Return the address at which to listen, and the fleet; None = do not listen. Blocks."""
        try:
            address = read_listening(self._state_dir)
            invitation = read_membership(self._state_dir) if address else None
        except (SettingsInvalid, OSError):  # the link to the fleet reports that
            return None
        return (address, invitation.fleet) if invitation is not None and invitation.node == self._node else None

    async def _keep(self, wanted: tuple[str, str]) -> bool:
        """Run the process as long as `wanted` is current; return True if the process has ended by itself."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "syncpod.agent.fleet.endpoint_process"),
                *(str(self._state_dir), self._runtime, str(os.getpid())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                cwd="/",
                env=self._environment,
                start_new_session=True,
                limit=_LINE_BYTES,
            )
        except OSError as error:
            log.warning("the node's endpoint cannot be started: %s", error)
            return True
        assert process.stdout is not None
        hearing = asyncio.create_task(self._read_lines(process.stdout))
        try:
            while not hearing.done() and await asyncio.to_thread(self._wanted) == wanted:
                await asyncio.wait({hearing}, timeout=LOOK_SECONDS)
            if hearing.done():
                log.warning("the node's endpoint has ended by itself; it is started again")
            return hearing.done()
        finally:
            self.address = ""
            await cancel_all((hearing,))
            await _end(process)

    async def _read_lines(self, lines: asyncio.StreamReader) -> None:
        """Read the process's lines until it ends: note the address at which it listens, and log its log records."""
        with contextlib.suppress(ValueError):  # a line that is too long, so not one of ours
            while line := await lines.readline():
                said = json.loads(line)
                if "address" in said:
                    self.address = said["address"]
                else:
                    log.log(said["level"], "%s", said["text"])


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process, which ends its commands."""
    for end in (process.terminate, process.kill):
        with contextlib.suppress(ProcessLookupError):
            end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TERM_SECONDS):
                await process.wait()
                return
