"""``python -m syncpod.agent.fleet.endpoint_process``: the process that serves a node's own endpoint.

It is one of its own, so that no stream, no flood of connections and no command takes the worker's time, memory or
descriptors. The worker starts it, and it ends with the worker. What it has to say is lines of JSON on its output.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from typing_extensions import override

from syncpod.agent.fleet.endpoint import Endpoint
from syncpod.agent.fleet.endpoint_ports import EndpointPorts
from syncpod.kernel import libc
from syncpod.kernel.priority import be_ordinary
from syncpod.settings.errors import SettingsInvalid
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import read_listening, read_membership

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""Between two looks whether the node has another certificate."""
_RETRY_SECONDS: Final = 5.0


class _Lines(logging.Handler):
    """Passes the log on to the worker."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        _say({"level": record.levelno, "text": self.format(record)})


def _say(said: dict[str, object]) -> None:
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()


async def _serve(state_dir: Path, runtime: str) -> None:
    """Serve the endpoint that the state directory names, until cancelled."""
    invitation, wanted = read_membership(state_dir), read_listening(state_dir)
    if invitation is None or not wanted:
        return
    host, _, port = wanted.rpartition(":")
    endpoint = await _started(invitation, host.strip("[]"), int(port), EndpointPorts(invitation.node, runtime))
    at = endpoint.port
    _say({"address": f"{host}:{at}"})
    log.info("listening at %s:%d for the machine of fleet %s", host, at, invitation.fleet)
    try:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            invitation = await asyncio.to_thread(_shown, endpoint, state_dir, invitation)
    finally:
        await endpoint.close()


async def _started(invitation: Invitation, host: str, port: int, ports: EndpointPorts) -> Endpoint:
    """Return the endpoint once it listens: an address may come later than the node."""
    trouble = ""
    while True:
        try:
            endpoint = Endpoint(invitation, os.environ, ports.carry)
            await endpoint.start(host, port)
            return endpoint
        except OSError as error:
            if trouble != str(error):
                log.warning("the node cannot listen at %s:%d for its fleet's machine: %s", host, port, error)
            trouble = str(error)
        await asyncio.sleep(_RETRY_SECONDS)


def _shown(endpoint: Endpoint, state_dir: Path, before: Invitation) -> Invitation:
    """Have the endpoint show a certificate that is newer than `before`, and return what it shows. Blocks."""
    try:
        found = read_membership(state_dir)
        if found is None or (found.fleet, found.node) != (before.fleet, before.node):
            return before
        if replace(found, fleet_key=before.fleet_key) == before:
            return before
        endpoint.show(found)
    except (SettingsInvalid, OSError) as wrong:
        log.warning("the node's endpoint goes on with the certificate that it has: %s", wrong)
        return before
    log.info("the node's endpoint shows another certificate of the node")
    return found


async def _until_told(state_dir: Path, runtime: str) -> None:
    loop, serving = asyncio.get_running_loop(), asyncio.ensure_future(_serve(state_dir, runtime))
    loop.add_signal_handler(signal.SIGTERM, serving.cancel)
    await asyncio.gather(serving, return_exceptions=False)


def main(arguments: Sequence[str]) -> int:
    """Serve the endpoint of a state directory, for the worker with this process id; return the exit code."""
    state_dir, runtime, worker = arguments
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(worker):  # it died before that call
        return 1
    be_ordinary()
    handler = _Lines()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it says of each stranger that left in a handshake
    try:
        asyncio.run(_until_told(Path(state_dir), runtime))
    except asyncio.CancelledError:
        return 0
    except (SettingsInvalid, OSError) as wrong:
        log.warning("the node's endpoint ends: %s", wrong)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
