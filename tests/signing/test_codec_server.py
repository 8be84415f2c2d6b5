"""The codec server signs only for clients with the token, only for one workflow, and reads no other data."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import grpc
import pytest
import pytest_asyncio
from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import Payload

from syncpod import http_server
from syncpod.kernel.callers import AT_ONCE, OF_A_STRANGER
from syncpod.kernel.http2_frames import Counted
from syncpod.kernel.peers import Address, Peer, find_peer
from syncpod.messages.signature import PayloadPlace, verify
from syncpod.messages.signed import ANY
from syncpod.settings.process_records import CodecRecord, read_codec_record
from syncpod.signing import front
from syncpod.signing.codec_server import CodecServer, workflow_named
from syncpod.signing.decoding_page import serve_page
from syncpod.signing.keys import SigningKeys, add_signing_key, make_signing_keys
from syncpod.signing.payload_requests import BODY_LIMIT
from syncpod.signing.proxy import SOCKET_NAME
from syncpod.temporal.encryption import encrypted
from tests.gate.hostile_http2 import ACKNOWLEDGED, PREFACE, SETTINGS, call, sent_until_closed

STRANGER = os.geteuid() + 20001
WEB = "pod/default/web"
OF_ANOTHER_USER = "only the user of this codec server, and root, may decode"
WITHOUT_TOKEN = "the token is not that of this node: run `syncpod env` as its owner again"
PAYLOADS = {"payloads": [{"metadata": {"encoding": base64.b64encode(b"json/plain").decode()}, "data": "e30="}]}


class Codec(NamedTuple):
    """A codec server that serves."""

    record: CodecRecord
    keys: SigningKeys
    command: list[str]
    strangers: set[int]
    """The ports of clients of another user."""


@pytest_asyncio.fixture(loop_scope="session")
async def codec(tmp_path: Path) -> AsyncIterator[Codec]:
    keys, command, strangers = make_signing_keys(tmp_path), ["temporal"], set[int]()

    def peer_of(client: Address, server: Address) -> Peer | None:
        found = find_peer(client, server)
        return Peer(STRANGER, 0) if found is not None and client[1] in strangers else found

    server = CodecServer(tmp_path, keys, "127.0.0.1:1", command_of=lambda _client, _server: command, peer_of=peer_of)
    serving = asyncio.create_task(server.run())
    while (record := read_codec_record(tmp_path)) is None:
        assert not serving.done(), serving
        await asyncio.sleep(0.01)
    yield Codec(record, keys, command, strangers)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert read_codec_record(tmp_path) is None


async def post(codec: Codec, path: str, body: bytes, *, token: str = "", size: int | None = None) -> tuple[int, str]:
    """Post a body; return the status and the answer."""
    url = urlsplit(codec.record.endpoint)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Namespace: default\r\n"
    head += f"Authorization: Bearer {token or codec.record.token}\r\n"
    writer.write(f"{head}Content-Length: {len(body) if size is None else size}\r\n\r\n".encode() + body)
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]


def verdict(codec: Codec, answer: str, workflow_id: str) -> Any:
    (payload,) = json.loads(answer)["payloads"]
    metadata = {name: base64.b64decode(value) for name, value in payload["metadata"].items()}
    return verify(codec.keys.by_id, PayloadPlace("default", workflow_id), metadata, base64.b64decode(payload["data"]))


async def test_it_signs_for_the_workflow_that_the_command_or_the_path_names(codec: Codec) -> None:
    body = json.dumps(PAYLOADS).encode()
    codec.command[:] = ["temporal", "workflow", "signal", "--workflow-id", WEB]
    status, answer = await post(codec, "/encode", body)
    said = verdict(codec, answer, WEB)
    assert (status, said.purpose, said.refusal) == (200, ANY, "")
    assert said.number > 0
    assert verdict(codec, answer, "pod/default/other").refusal
    status, answer = await post(codec, f"/{quote('pod/default/other', safe='')}/encode", body)
    assert verdict(codec, answer, "pod/default/other").refusal == ""
    codec.command[:] = ["temporal", "workflow", "signal", "--query", "…"]
    status, answer = await post(codec, "/encode", body)
    assert (status, "the payload's workflow is unknown" in answer) == (400, True)
    assert await post(codec, "/decode", body) == (200, body.decode())


@pytest.mark.parametrize("command", ["workflow start --type P", "workflow execute", "schedule create -s daily"])
async def test_a_start_that_names_no_workflow_is_let_through_and_refused_with_the_reason(
    codec: Codec, command: str
) -> None:
    """Otherwise `temporal` would repeat it for ten seconds, and then not print the codec server's error."""
    codec.command[:] = ["temporal", *command.split()]
    status, answer = await post(codec, "/encode", json.dumps(PAYLOADS).encode())
    assert status == 200
    assert "--workflow-id pod/<namespace>/<name>" in verdict(codec, answer, WEB).refusal
    (payload,) = json.loads(answer)["payloads"]
    assert base64.b64decode(payload["data"]) == b"{}", "what cannot be encrypted for a workflow stays here"


async def test_without_the_token_it_reads_no_body_and_does_nothing(codec: Codec) -> None:
    status, answer = await post(codec, "/encode", b"", token="guessed", size=BODY_LIMIT)
    assert (status, "token" in answer) == (401, True)
    assert (await post(codec, "/decode", b"", token="guessed", size=1))[0] == 401


async def connected(codec: Codec, address: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the codec server, or to an address, as another user, and send nothing."""
    url = urlsplit(f"//{address}" if address else codec.record.endpoint)
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    codec.strangers.add(one.getsockname()[1])
    one.setblocking(False)
    await asyncio.get_running_loop().sock_connect(one, (url.hostname, url.port))
    return await asyncio.open_connection(sock=one)


async def test_whoever_connects_without_saying_anything_takes_no_room_from_the_owner(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PATIENCE_SECONDS", 60.0)
    silent = [await connected(codec) for _ in range(3 * AT_ONCE)]
    beyond = [reader.read() for reader, _ in silent[OF_A_STRANGER:]]
    assert set(await asyncio.gather(*beyond)) == {b""}, "more than one user's share is closed at once"
    assert not any(reader.at_eof() for reader, _ in silent[:OF_A_STRANGER])
    assert (await post(codec, "/decode", b"{}"))[0] == 200
    for _, writer in silent:
        writer.close()


async def test_a_body_that_comes_too_slowly_ends_the_connection(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "PATIENCE_SECONDS", 0.2)
    url = urlsplit(codec.record.endpoint)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST /decode HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {codec.record.token}\r\n"
    writer.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
    async with asyncio.timeout(5):
        assert await reader.read() == b""
    writer.close()


async def test_secrets_that_are_no_text_are_refused(codec: Codec) -> None:
    url = urlsplit(codec.record.endpoint)
    for path, shown in ((b"/decode", b"Bearer \xff"), (b"/\xff/decode", b"Bearer x")):
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\nContent-Length: 0\r\n\r\n"
        writer.write(head % (path, shown))
        status = (await reader.read()).partition(b"\r\n")[0]
        assert status in (b"HTTP/1.1 401 Unauthorized", b"HTTP/1.0 400 Bad Request"), path
        writer.close()


async def test_the_proxy_closes_a_strangers_connections_beyond_a_few_and_serves_its_owner(codec: Codec) -> None:
    """Each costs the worker a descriptor: a thousand silent ones would leave it none."""
    silent = [await connected(codec, codec.record.proxy) for _ in range(3 * AT_ONCE)]
    beyond = [reader.read() for reader, _ in silent[OF_A_STRANGER:]]
    assert set(await asyncio.gather(*beyond)) == {b""}
    call = "/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo"
    async with grpc.aio.insecure_channel(codec.record.proxy) as channel:
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(call)
        for token, code in (("x", grpc.StatusCode.UNAUTHENTICATED), (codec.record.token, grpc.StatusCode.UNAVAILABLE)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask(b"", metadata=(("authorization", f"Bearer {token}"),), timeout=20)
            assert refused.value.code() is code, "the token lets a call through, to a server that is not there"
    for _, writer in silent:
        writer.close()


async def test_a_stranger_who_floods_the_proxy_is_disconnected_and_the_owner_is_not(codec: Codec) -> None:
    """Frames cost the worker's loop: its owner's calls took two seconds, and so did everything else."""
    flood = [PREFACE + SETTINGS + ACKNOWLEDGED, *(call(2 * number + 1) for number in range(2 * front.CALLS_BURST))]
    await sent_until_closed(*await connected(codec, codec.record.proxy), flood)
    assert await (await connected(codec, codec.record.proxy))[0].read() == b"", "a new connection is no new burst"
    call_of_owner = "/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo"
    async with grpc.aio.insecure_channel(codec.record.proxy) as channel:
        asking: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(call_of_owner)
        answers = await asyncio.gather(*(asking(b"") for _ in range(20)), return_exceptions=True)
    codes = {each.code() for each in answers if isinstance(each, grpc.aio.AioRpcError)}
    assert codes == {grpc.StatusCode.UNAUTHENTICATED}


async def test_small_frames_of_strangers_are_bounded_too() -> None:
    bounds = front.Bounds()
    assert bounds.allow(Counted(0, front.FRAMES_BURST)) and bounds.is_open()
    assert not bounds.allow(Counted(0, 100)) and not bounds.is_open()


async def test_the_proxys_socket_is_the_owners_alone(codec: Codec, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / SOCKET_NAME).stat().st_mode) == 0o600


async def test_nonsense_is_refused_with_a_status(codec: Codec) -> None:
    codec.command[:] = ["tctl", "-w", WEB]
    deep = b"[" * 100_000
    for body in (b"", b"{", b"[]", deep, b'{"payloads": 1}', b'{"payloads": [{"data": "?"}]}', b'{"payloads": ["x"]}'):
        assert (await post(codec, "/encode", body))[0] == 400, body
    assert (await post(codec, "/encode", b"", size=BODY_LIMIT + 1))[0] == 413
    assert (await post(codec, "/other", b""))[0] == 404


async def test_a_page_may_decode_by_the_secret_path_and_do_nothing_else(codec: Codec) -> None:
    secret = urlsplit(codec.record.page).path
    assert len(secret) > 40 and codec.record.token not in secret
    plain = json.dumps(PAYLOADS).encode()
    assert await ask(codec, "OPTIONS", f"{secret}/decode", b"") == (200, "*", "")
    status, allowed, answer = await ask(codec, "POST", f"{secret}/decode", plain)
    assert (status, allowed, json.loads(answer)) == (200, "*", PAYLOADS)
    assert (await ask(codec, "POST", f"{secret}/encode", plain))[0] == 404
    assert await ask(codec, "POST", "/decode", plain) == (401, "", WITHOUT_TOKEN)
    assert (await ask(codec, "OPTIONS", f"{secret[:-1]}/decode", b""))[:2] == (401, "")


async def test_the_page_decodes_nothing_for_another_user_who_has_the_path(codec: Codec) -> None:
    secret = urlsplit(codec.record.page).path
    asked = await ask(codec, "POST", f"{secret}/decode", json.dumps(PAYLOADS).encode(), is_stranger=True)
    assert asked == (403, "", OF_ANOTHER_USER)


async def ask(codec: Codec, method: str, path: str, body: bytes, *, is_stranger: bool = False) -> tuple[int, str, str]:
    """Send a browser's request without the token; return status, allowed origins and answer."""
    url = urlsplit(codec.record.endpoint)
    reader, writer = await (connected(codec) if is_stranger else asyncio.open_connection(url.hostname, url.port))
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:8233\r\nX-Namespace: default\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    said = (await reader.read()).decode()
    writer.close()
    allowed = [line.partition(": ")[2] for line in said.splitlines() if line.startswith("Access-Control-Allow-Origin")]
    return int(said.split(" ", 2)[1]), "".join(allowed), said.partition("\r\n\r\n")[2]


def test_a_command_line_names_one_workflow_or_none() -> None:
    assert workflow_named(["temporal", "workflow", "signal", "--workflow-id", WEB, "--name", "x"]) == WEB
    assert workflow_named(["temporal", f"--workflow-id={WEB}"]) == WEB
    assert workflow_named(["tctl", "wf", "signal", "-w", WEB]) == WEB
    assert workflow_named(["temporal", "-w", WEB, "-w", "pod/default/other"]) == ""
    assert workflow_named(["temporal", "-w"]) == ""
    assert workflow_named([]) == ""


async def test_a_page_for_a_fleets_keys_decodes_and_does_nothing_else(tmp_path: Path) -> None:
    keys, endpoint = make_signing_keys(tmp_path), asyncio.get_running_loop().create_future()
    peers: list[Peer | None] = [Peer(os.geteuid(), 0)]
    serving = asyncio.create_task(serve_page(keys, 0, endpoint.set_result, lambda _client, _server: peers[-1]))
    url = urlsplit(await endpoint)
    secret = [encrypted(keys.current, PayloadPlace("default", "w"), Payload(data=b"one"))]
    add_signing_key(tmp_path)
    other = make_signing_keys(tmp_path)
    secret.append(encrypted(other.current, PayloadPlace("default", "w"), Payload(data=b"two")))
    body = json.dumps({"payloads": [MessageToDict(each) for each in secret]}).encode()

    async def ask(path: str, method: str = "POST") -> tuple[int, str]:
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = (await reader.read()).decode()
        writer.close()
        return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]

    try:
        status, answer = await ask(f"{url.path}/decode")
        shown = [base64.b64decode(each["data"]) for each in json.loads(answer)["payloads"]]
        assert (status, shown) == (200, [b"one", b"two"])
        for path, method in (("/decode", "POST"), (f"{url.path}/encode", "POST"), (f"{url.path}/decode", "GET")):
            assert (await ask(path, method))[0] == 404
        peers.append(Peer(0, 0))
        assert (await ask(f"{url.path}/decode"))[0] == 200, "root may read all anyway"
        for other_user in (Peer(STRANGER, 0), None):
            peers.append(other_user)
            assert await ask(f"{url.path}/decode") == (403, OF_ANOTHER_USER)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
