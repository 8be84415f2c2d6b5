"""Signs for ``temporal`` and ``tctl``: a codec server of Temporal's protocol, on the loopback address, with a token.

Both tools send the payloads of a command to it (``POST /encode``), and what they show (``POST /decode``, which decrypts
what is encrypted; the rest is readable as it is). They send a namespace and no workflow id. A signature that held for
any workflow could be copied from one history to another workflow, so there is none: the workflow is read from the
command line of the process that has connected (``--workflow-id``, ``-w``, ``--workflow_id``, ``--wid``), or from the
path before ``/encode``. Where neither names one, the server refuses, and says what to do.

Whoever has the token has all that the key can sign; it lies beside the key, with the same mode.

The Temporal UI decodes in the browser, which has no token: for it there is a secret path, under which a page of any
origin may decode, and do nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from temporalio.api.common.v1 import Payload

from syncpod.kernel.callers import Callers, PeerOf
from syncpod.kernel.peers import Address, find_peer, peer_command
from syncpod.messages.signature import Keys, Place
from syncpod.messages.signed import ANY
from syncpod.settings.codec_record import CodecRecord, remove_codec_record, write_codec_record
from syncpod.signing.payloads import signed_payload
from syncpod.signing.proxy import SigningProxy
from syncpod.temporal.encryption import readable

log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
BODY_LIMIT: Final = 4 * 2**20
"""Bytes of a request: a server takes 4 MiB in a call, and base64 needs a third more than JSON."""
HEAD_LIMIT: Final = 16 * 2**10
PATIENCE_SECONDS: Final = 10.0
_FOR_PAGES: Final = (
    "Access-Control-Allow-Origin: *\r\n"
    "Access-Control-Allow-Methods: POST\r\n"
    "Access-Control-Allow-Headers: content-type, x-namespace\r\n"
)
_FLAGS: Final = ("--workflow-id", "--workflow_id", "--wid", "-w")

NO_WORKFLOW: Final = (
    "for which workflow is not known: name it by --workflow-id in the command, "
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
        """Sign with `keys`, also before the Temporal server at `address`.

        `command_of` returns the command line of the process at the other end of a connection, `peer_of` whose it is.
        """
        self._state_dir, self._keys, self._command_of, self._peer_of = state_dir, keys, command_of, peer_of
        self._callers = Callers(peer_of)
        self._address = address
        self._token, self._page = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

    async def run(self) -> None:
        """Serve until cancelled, on free ports. Raises OSError, RuntimeError."""
        server = await asyncio.start_server(self._serve, HOST, 0, limit=HEAD_LIMIT)
        port = server.sockets[0].getsockname()[1]
        proxy = SigningProxy(self._state_dir, self._address, self._keys, self._token, self._peer_of)
        try:
            before = await proxy.start()
            here = f"http://{HOST}:{port}"
            write_codec_record(self._state_dir, CodecRecord(here, before, self._token, f"{here}/{self._page}"))
            async with server:
                await server.serve_forever()
        finally:
            await proxy.close()
            with suppress(OSError):
                remove_codec_record(self._state_dir)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._callers.counted(writer) as has_room:
            try:
                if has_room:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        writer.write(_response(*await self._answer(reader, writer)))
                        await writer.drain()
            except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                log.debug("a request to the codec server failed: %s", error)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes, str]:
        """Return status and body of the answer, and more headers.

        Nothing but the request's head is read before the token or the page's path has been checked.
        """
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        before, _, verb = target.partition("?")[0].rpartition("/")
        if hmac.compare_digest(before.encode("latin-1"), f"/{self._page}".encode()):
            return await self._answer_page(method, verb, headers, reader)
        if not hmac.compare_digest(headers.get("authorization", "").encode(), f"Bearer {self._token}".encode()):
            return 401, b"the token is not that of this node: run `syncpod env` as its owner again", ""
        if method != "POST" or verb not in ("encode", "decode"):
            return 404, b"POST /encode or /decode", ""
        if (body := await _body(headers, reader)) is None:
            return 413, b"the request is too large", ""
        if verb == "decode":
            return *_answered(body, self._decoded), ""
        named = unquote(before.strip("/")) or await self._named_by_peer(writer)
        if not named:
            return 400, NO_WORKFLOW.encode(), ""
        place = Place(headers.get("x-namespace", "default"), named)
        return *_answered(body, lambda payload: self._encoded(payload, place)), ""

    async def _answer_page(
        self, method: str, verb: str, headers: Mapping[str, str], reader: asyncio.StreamReader
    ) -> tuple[int, bytes, str]:
        """Answer a page that knows the path: the browser's question whether it may ask, and what it has decoded."""
        if method == "OPTIONS":
            return 200, b"", _FOR_PAGES
        if (method, verb) != ("POST", "decode"):
            return 404, b"POST /decode", _FOR_PAGES
        if (body := await _body(headers, reader)) is None:
            return 413, b"the request is too large", _FOR_PAGES
        return *_answered(body, self._decoded), _FOR_PAGES

    async def _named_by_peer(self, writer: asyncio.StreamWriter) -> str:
        """Return the workflow id in the command line of the process that has connected; "" if it names none."""
        client, server = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        return workflow_named(await asyncio.to_thread(self._command_of, client, server))

    def _encoded(self, payload: Payload, place: Place) -> Payload:
        return signed_payload(self._keys, place, payload, ANY)

    def _decoded(self, payload: Payload) -> Payload:
        return readable(self._keys.by_id, payload)


async def _body(headers: Mapping[str, str], reader: asyncio.StreamReader) -> bytes | None:
    """Return a request's body; None if it is too large, or its size is not given."""
    size = int(headers.get("content-length", "-1"))
    return await reader.readexactly(size) if 0 <= size <= BODY_LIMIT else None


def _answered(body: bytes, change: Callable[[Payload], Payload]) -> tuple[int, bytes]:
    """Return the answer to a request with these payloads: each of them, changed."""
    try:
        changed = [_to_json(change(_from_json(payload))) for payload in json.loads(body).get("payloads", ())]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, binascii.Error):
        return 400, b"the body must be Temporal's payloads, as JSON"
    return 200, json.dumps({"payloads": changed}).encode()


def _from_json(payload: dict[str, Any]) -> Payload:
    """Return a payload of the codec servers' protocol. Raises TypeError, ValueError, AttributeError."""
    metadata = {name: base64.b64decode(value, validate=True) for name, value in payload.get("metadata", {}).items()}
    return Payload(metadata=metadata, data=base64.b64decode(payload.get("data", ""), validate=True))


def _to_json(payload: Payload) -> dict[str, Any]:
    return {
        "metadata": {name: base64.b64encode(value).decode() for name, value in payload.metadata.items()},
        "data": base64.b64encode(payload.data).decode(),
    }


def workflow_named(command: Sequence[str]) -> str:
    """Return the workflow id that a command line of ``temporal`` or ``tctl`` names; "" if it names none, or two."""
    found = set()
    for place, word in enumerate(command):
        flag, equals, value = word.partition("=")
        if flag in _FLAGS:
            found.add(value if equals else next(iter(command[place + 1 : place + 2]), ""))
    return found.pop() if len(found) == 1 else ""


def _response(status: int, body: bytes, more: str) -> bytes:
    reasons = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 413: "Content Too Large"}
    kind = "application/json" if status == 200 else "text/plain; charset=utf-8"
    head = f"HTTP/1.1 {status} {reasons[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{more}Connection: close\r\n\r\n".encode() + body
