"""``python -m syncpod.agent.fleet.endpoint_process``: the process that serves a node's own endpoint.

It is separate from the worker, so that streams, floods of connections and commands use none of the worker's CPU time,
memory or descriptors. The worker starts it, and it ends with the worker. It sends its address and its log to the worker
as lines of JSON on its output.
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
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from syncpod.agent.fleet.endpoint import Endpoint
from syncpod.gate.invitation_check import require_fitting
from syncpod.kernel import libc
from syncpod.kernel.os_errors import where_and_why, why_of
from syncpod.kernel.process_log import SentencesInLog
from syncpod.kernel.process_priority import be_ordinary
from syncpod.messages.endpoint import INPUT, STDOUT, Ended, Forward
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import read_listening, read_membership
from syncpod.settings.values import SettingsInvalid
from syncpod.translation.names import NODE_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL

if TYPE_CHECKING:
    from syncpod.cri.client import CriClient
    from syncpod.streaming.multiplex import Multiplex

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""Seconds between two checks whether the node has a new certificate."""
_RETRY_SECONDS: Final = 5.0


class _Lines(logging.Handler):
    """Writes log records as JSON lines for the worker."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        _say({"level": record.levelno, "text": self.format(record)})


def _say(said: dict[str, object]) -> None:
    sys.stdout.write(f"{json.dumps(said)}\n")
    sys.stdout.flush()


class _Identity:
    """Reads the invitation in a state directory. A problem is logged only when it changes."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir, self._trouble = state_dir, ""

    def read(self) -> Invitation | None:
        """Return the invitation; None if there is none, or it cannot be used. Blocks."""
        try:
            found = read_membership(self._state_dir)
            if found is not None:
                require_fitting(found)
        except (SettingsInvalid, OSError) as wrong:
            self.warn(f"the node's endpoint cannot use the node's invitation: {where_and_why(wrong)}")
            return None
        return found

    def warn(self, trouble: str) -> None:
        """Log a problem, if it has changed; "" = there is none any more."""
        if trouble and trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble


class _Ports:
    """Forwards connections to ports of the node's pods. The first one makes it connect to the runtime."""

    def __init__(self, node: str, runtime: str) -> None:
        """`runtime` is the address of the runtime of `node`. Only pods of this node can be reached."""
        self._node, self._runtime = node, runtime
        self._client: CriClient | None = None

    async def carry(self, link: Multiplex, asked: Forward) -> Ended:
        """Forward a connection to a port of a pod until it ends, and return how it ended. Raises PeerGone."""
        from syncpod.cri.client import CriClient  # imported late: gRPC takes 50 ms
        from syncpod.cri.errors import TransportFault
        from syncpod.handlers.port_forwarding import NotForwarded, PodGone, PodPorts
        from syncpod.streaming.multiplex import PeerGone

        if self._client is None:
            self._client = CriClient(self._runtime)
        labels = {NODE_LABEL: self._node, POD_NAMESPACE_LABEL: asked.namespace, POD_NAME_LABEL: asked.pod}
        try:
            await PodPorts(self._client, asked.pod, labels).carry(_Far(link), asked.port)
        except NotForwarded as why:
            return Ended(refused=str(why), is_pod_gone=isinstance(why, PodGone))
        except TransportFault:
            return Ended(refused=f"the runtime of node {self._node} does not answer")
        except PeerGone:
            raise
        except ConnectionError as broken:
            return Ended(refused=str(broken))
        return Ended(code=0)


class _Far:
    """The client's side of the connection, over the link (a `syncpod.handlers.port_forwarding.Near`)."""

    def __init__(self, link: Multiplex) -> None:
        self._link = link

    async def read(self) -> bytes:
        return await self._link.read(INPUT)

    async def write(self, data: bytes) -> None:
        await self._link.write(STDOUT, data)

    async def finish(self) -> None:
        await self._link.end(STDOUT)


async def _serve(state_dir: Path, runtime: str) -> None:
    """Serve the endpoint that the state directory names, until cancelled."""
    wanted = read_listening(state_dir)
    if not wanted:
        return
    host, _, port = wanted.rpartition(":")
    identity = _Identity(state_dir)
    endpoint, invitation = await _started(identity, host.strip("[]"), int(port), runtime)
    at = endpoint.port
    _say({"address": f"{host}:{at}"})
    log.info("listening at %s:%d for the machine of fleet %s", host, at, invitation.fleet)
    try:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            invitation = await asyncio.to_thread(_shown, endpoint, identity, invitation)
    finally:
        await endpoint.close()


async def _started(identity: _Identity, host: str, port: int, runtime: str) -> tuple[Endpoint, Invitation]:
    """Return the endpoint and its invitation, once it listens. Retries, since the node may get the address later."""
    while True:
        invitation = await asyncio.to_thread(identity.read)
        if invitation is not None:
            try:
                endpoint = Endpoint(invitation, os.environ, _Ports(invitation.node, runtime).carry)
                await endpoint.start(host, port)
            except OSError as error:
                identity.warn(f"the node cannot listen at {host}:{port} for its fleet's machine: {why_of(error)}")
            else:
                identity.warn("")
                return endpoint, invitation
        await asyncio.sleep(_RETRY_SECONDS)


def _shown(endpoint: Endpoint, identity: _Identity, before: Invitation) -> Invitation:
    """If the node has a new certificate, present it at the endpoint; return the invitation in use. Blocks."""
    found = identity.read()
    if found is None or (found.fleet, found.node) != (before.fleet, before.node):
        return before
    if replace(found, fleet_key=before.fleet_key) != before:
        try:
            endpoint.show(found)
        except OSError as error:
            identity.warn(f"the node's endpoint keeps its earlier certificate: {why_of(error)}")
            return before
        log.info("the node's endpoint now presents the node's new certificate")
    identity.warn("")
    return found


async def _until_terminated(state_dir: Path, runtime: str) -> None:
    loop, serving = asyncio.get_running_loop(), asyncio.ensure_future(_serve(state_dir, runtime))
    loop.add_signal_handler(signal.SIGTERM, serving.cancel)
    await asyncio.gather(serving, return_exceptions=False)


def main(arguments: Sequence[str]) -> int:
    """Serve the endpoint of a state directory, for the worker with this process id; return the exit code."""
    state_dir, runtime, worker = arguments
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(worker):  # the worker died before the call of prctl
        return 1
    be_ordinary()
    handler = _Lines()
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.addFilter(SentencesInLog())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it logs each client that leaves during a handshake
    try:
        asyncio.run(_until_terminated(Path(state_dir), runtime))
    except asyncio.CancelledError:
        return 0
    except (SettingsInvalid, OSError) as wrong:
        log.warning("the node's endpoint ends: %s", where_and_why(wrong))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
