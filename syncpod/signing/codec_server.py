"""Signs for ``temporal`` and ``tctl``: a codec server of Temporal's protocol, on the loopback address, with a token.

Both tools send it the payloads of a command (``POST /encode``), and the payloads that they display (``POST /decode``,
which decrypts encrypted ones). A request has the namespace but no workflow id. A signature without a workflow id could
be copied from one workflow to another, so the server reads the id from the command line of the connected process
(``--workflow-id``, ``-w``, ``--workflow_id``, ``--wid``), or from the path before ``/encode``. Without an id, the
command is refused with advice. Only the start of a workflow is passed, unsigned: its run fails with the same advice.

A process that has the token can have any command signed. The token's file has the same mode as the key's.

The Temporal UI has an endpoint of its own (:mod:`syncpod.signing.decoding_page`).
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from aiohttp import web
from temporalio.api.common.v1 import Payload

from syncpod.http_server import serve
from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.peers import Address, find_peer, peer_command
from syncpod.messages.signature import NAMELESS, Keys, PayloadPlace
from syncpod.messages.signed import ANY
from syncpod.settings.process_records import CodecRecord, remove_codec_record, write_codec_record
from syncpod.signing.decoding_page import DecodingPage
from syncpod.signing.payload_requests import HOST, answered, refused, same_secret, split_path
from syncpod.signing.proxy import SigningProxy, signed_payload
from syncpod.temporal.encryption import readable

_FLAGS: Final = ("--workflow-id", "--workflow_id", "--wid", "-w")

NO_WORKFLOW: Final = (
    "the payload's workflow is unknown: name it by --workflow-id in the command, "
    "or use `syncpod env --workflow ID` for the endpoint"
)


class CodecServer:
    """The codec server of one node."""

    def __init__(
        self,
        state_dir: Path,
        keys: Keys,
        address: str,
        *,
        command_of: Callable[[Address, Address], Sequence[str]] = peer_command,
        peer_of: PeerOf = find_peer,
    ) -> None:
        """Sign with `keys`. The signing proxy passes calls on to the Temporal server at `address`.

        `command_of` returns the command line of the process at the other end of a connection, `peer_of` its user.
        """
        self._state_dir, self._keys, self._command_of, self._peer_of = state_dir, keys, command_of, peer_of
        self._callers = Callers(peer_of)
        self._address = address
        self._token, self._page = secrets.token_urlsafe(32), DecodingPage(keys)

    async def run(self) -> None:
        """Serve until cancelled, on free ports. Raises OSError, RuntimeError."""
        proxy = SigningProxy(self._state_dir, self._address, self._keys, self._token, self._peer_of)
        try:
            with socket.create_server((HOST, 0)) as listening:
                before = await proxy.start()
                here = f"http://{HOST}:{listening.getsockname()[1]}"
                write_codec_record(self._state_dir, CodecRecord(here, before, self._token, f"{here}/{self._page.name}"))
                await serve(self._answer, self._callers, listening)
        finally:
            await proxy.close()
            with suppress(OSError):
                remove_codec_record(self._state_dir)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request. Its body is not read before the token or the page's path has been checked."""
        if self._page.is_for(request):
            return await self._page.answer(request, self._callers.is_owners(request))
        if not same_secret(request.headers.get("Authorization", ""), f"Bearer {self._token}"):
            return refused(401, "the token is not that of this node: run `syncpod env` as its owner again")
        before, verb = split_path(request)
        if request.method != "POST" or verb not in ("encode", "decode"):
            return refused(404, "POST /encode or /decode")
        if verb == "decode":
            return await answered(request, self._decoded)
        named, begins = unquote(before.strip("/")), False
        if not named:
            command = await self._command_of_peer(request)
            named, begins = workflow_named(command), begins_run(command)
        if not named:
            return await answered(request, _nameless) if begins else refused(400, NO_WORKFLOW)
        place = PayloadPlace(request.headers.get("X-Namespace", "default"), named)
        return await answered(request, lambda payload: self._encoded(payload, place))

    async def _command_of_peer(self, request: web.BaseRequest) -> Sequence[str]:
        """Return the command line of the process that has connected."""
        client, server = request.get_extra_info("peername"), request.get_extra_info("sockname")
        return await asyncio.to_thread(self._command_of, client, server) if client and server else ()

    def _encoded(self, payload: Payload, place: PayloadPlace) -> Payload:
        return signed_payload(self._keys, place, payload, ANY)

    def _decoded(self, payload: Payload) -> Payload:
        return readable(self._keys.by_id, payload)


def _nameless(_payload: Payload) -> Payload:
    """Return a payload that makes the run fail with the advice of NO_WORKFLOW; the payload in the request is dropped.

    `temporal` retries an error of a codec server for ten seconds, and then reports only a timeout. So the run is
    started, and fails at once.
    """
    return Payload(metadata={"encoding": b"json/plain", NAMELESS: b"true"}, data=b"{}")


def begins_run(command: Sequence[str]) -> bool:
    """Return whether a command of ``temporal`` starts a workflow, or makes or changes a schedule that starts one."""
    words = [word for word in command[1:] if not word.startswith("-")][:2]
    return words in (["workflow", "start"], ["workflow", "execute"], ["schedule", "create"], ["schedule", "update"])


def workflow_named(command: Sequence[str]) -> str:
    """Return the workflow id that a command line of ``temporal`` or ``tctl`` names; "" if it names none, or two."""
    found = set()
    for place, word in enumerate(command):
        flag, equals, value = word.partition("=")
        if flag in _FLAGS:
            found.add(value if equals else next(iter(command[place + 1 : place + 2]), ""))
    return found.pop() if len(found) == 1 else ""
