"""Temporal's codec protocol over HTTP: payloads as JSON."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from temporalio.api.common.v1 import Payload

HOST: Final = "127.0.0.1"
BODY_LIMIT: Final = 4 * 2**20
"""Maximum bytes of a request's body. In base64 that is 3 MiB of payloads; a server refuses a payload above 2 MiB."""


def split_path(request: web.BaseRequest) -> tuple[str, str]:
    """Return the path of a request before its last part, as it was sent, and that last part: ``encode``, ``decode``."""
    before, _, verb = request.raw_path.partition("?")[0].rpartition("/")
    return before, verb


def same_secret(shown: str, secret: str) -> bool:
    """Compare a text of a request with a secret, in a time that does not show how much of the text is right."""
    return hmac.compare_digest(shown.encode(errors="surrogateescape"), secret.encode())


async def answered(request: web.BaseRequest, change: Callable[[Payload], Payload]) -> web.Response:
    """Return the answer to a request: each payload in its body, changed by `change`.

    A body without a length, or with too many bytes, is not read.
    """
    if request.content_length is None or request.content_length > BODY_LIMIT:
        return refused(413, "the request is too large")
    body = await request.content.read()
    try:
        changed = [_to_json(change(_from_json(payload))) for payload in json.loads(body).get("payloads", ())]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, binascii.Error):
        return refused(400, "the body must be Temporal's payloads, as JSON")
    return web.Response(body=json.dumps({"payloads": changed}).encode(), content_type="application/json")


def refused(status: int, why: str) -> web.Response:
    """Return a refusal."""
    return web.Response(status=status, text=why)


def _from_json(payload: dict[str, Any]) -> Payload:
    """Return a payload of the codec servers' protocol. Raises TypeError, ValueError, AttributeError."""
    metadata = {name: base64.b64decode(value, validate=True) for name, value in payload.get("metadata", {}).items()}
    return Payload(metadata=metadata, data=base64.b64decode(payload.get("data", ""), validate=True))


def _to_json(payload: Payload) -> dict[str, Any]:
    return {
        "metadata": {name: base64.b64encode(value).decode() for name, value in payload.metadata.items()},
        "data": base64.b64encode(payload.data).decode(),
    }
