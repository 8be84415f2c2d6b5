"""The codec server of a node that encrypts: `temporal` sends and shows JSON, and Temporal gets encrypted data."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import pytest_asyncio
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest

from syncpod.messages.encryption import is_encrypted
from syncpod.messages.signature import PayloadPlace, key_id, verify
from syncpod.messages.signed import ANY
from syncpod.settings.process_records import read_codec_record
from syncpod.signing.codec_server import CodecServer
from syncpod.signing.keys import EncryptingKeys, SigningKeys, add_signing_key, make_signing_keys
from syncpod.signing.proxy import signers
from syncpod.temporal.encryption import decrypted

WEB = "pod/default/web"
SAID = b'{"container": "app"}'


class Codec(NamedTuple):
    endpoint: str
    token: str
    keys: SigningKeys
    state_dir: Path


@pytest_asyncio.fixture(loop_scope="session")
async def codec(tmp_path: Path) -> AsyncIterator[Codec]:
    keys = make_signing_keys(tmp_path)
    serving = asyncio.create_task(CodecServer(tmp_path, EncryptingKeys(keys), "127.0.0.1:1").run())
    while (record := read_codec_record(tmp_path)) is None:
        assert not serving.done(), serving
        await asyncio.sleep(0.01)
    yield Codec(record.endpoint, record.token, keys, tmp_path)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def post(codec: Codec, path: str, *payloads: Payload) -> list[Payload]:
    """The codec server's result for payloads."""
    body = json.dumps({"payloads": [_to_json(payload) for payload in payloads]}).encode()
    url = urlsplit(codec.endpoint)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {codec.token}\r\nX-Namespace: default\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    status, _, answer = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert b" 200 " in status.splitlines()[0], answer
    return [_from_json(payload) for payload in json.loads(answer)["payloads"]]


def _to_json(payload: Payload) -> dict[str, Any]:
    metadata = {name: base64.b64encode(value).decode() for name, value in payload.metadata.items()}
    return {"metadata": metadata, "data": base64.b64encode(payload.data).decode()}


def _from_json(payload: dict[str, Any]) -> Payload:
    metadata = {name: base64.b64decode(value) for name, value in payload["metadata"].items()}
    return Payload(metadata=metadata, data=base64.b64decode(payload["data"]))


def plain() -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=SAID)


async def test_what_is_sent_is_encrypted_and_what_is_shown_is_not(codec: Codec) -> None:
    (sent,) = await post(codec, f"/{quote(WEB, safe='')}/encode", plain())
    assert is_encrypted(sent.metadata)
    assert SAID not in sent.SerializeToString()
    inner = decrypted(codec.keys.by_id, PayloadPlace("default", WEB), sent)
    verdict = verify(codec.keys.by_id, PayloadPlace("default", WEB), inner.metadata, inner.data)
    assert (verdict.purpose, verdict.refusal) == (ANY, "")
    newer = add_signing_key(codec.state_dir).current
    while codec.keys.current != newer:  # noqa: ASYNC110  # it is looked for once a second, by whoever asks
        await asyncio.sleep(0.05)
    (later,) = await post(codec, f"/{quote(WEB, safe='')}/encode", plain())
    assert later.metadata["encryption-key-id"] != sent.metadata["encryption-key-id"], "the new key encrypts"
    foreign = Payload(metadata={**sent.metadata, "encryption-key-id": key_id(b"?").encode()}, data=sent.data)
    shown = await post(codec, "/decode", sent, later, plain(), foreign)
    assert [payload.data for payload in shown[:3]] == [SAID] * 3, "the old key decrypts"
    assert shown[3] == foreign, "what cannot be decrypted is shown as it is"
    assert await post(codec, f"/{quote(WEB, safe='')}/encode", sent) == [sent], "once is enough"


async def test_the_proxy_encrypts_what_tctl_sends(codec: Codec) -> None:
    request = SignalWorkflowExecutionRequest(namespace="default", signal_name="restart")
    request.workflow_execution.workflow_id = WEB
    request.input.CopyFrom(Payloads(payloads=[plain()]))
    calls = signers(EncryptingKeys(codec.keys))
    sign = calls["/temporal.api.workflowservice.v1.WorkflowService/SignalWorkflowExecution"]
    (sent,) = SignalWorkflowExecutionRequest.FromString(sign(request.SerializeToString())).input.payloads
    inner = decrypted(codec.keys.by_id, PayloadPlace("default", WEB), sent)
    verdict = verify(codec.keys.by_id, PayloadPlace("default", WEB), inner.metadata, inner.data)
    assert (verdict.purpose, verdict.refusal, inner.data) == ("signal/restart", "", SAID)
