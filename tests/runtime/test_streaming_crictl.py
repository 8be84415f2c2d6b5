"""crictl's streams with the server, by both of its protocols, with the code of kubectl and the kubelet."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX
from tests.runtimes.require import Missing, cache_directory, do_without

SANDBOX = {"metadata": {"name": "pod", "namespace": "default", "uid": "u", "attempt": 0}, "linux": {}}


class Crictl:
    """crictl, and a pod on a server of its own."""

    def __init__(self, program: str, endpoint: str, directory: Path) -> None:
        (directory / "crictl.yaml").write_text(
            f"runtime-endpoint: {endpoint}\nimage-endpoint: {endpoint}\ntimeout: 20\n"
        )
        self._command = [program, f"--config={directory / 'crictl.yaml'}"]
        self._directory = directory
        self.pod = ""

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self._command, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._directory
        )

    async def run(self, *arguments: str, stdin: bytes = b"") -> tuple[bytes, bytes, int]:
        """Run it to its end: stdout, stderr, exit code."""
        process = await self.start(*arguments)
        output, errors = await process.communicate(stdin)
        assert process.returncode is not None
        return output, errors, process.returncode

    async def said(self, *arguments: str) -> str:
        """Run a command that must succeed, and return its output."""
        output, errors, code = await self.run(*arguments)
        assert code == 0, errors.decode()
        return output.decode().strip()

    async def container(self, name: str, command: list[str], **more: object) -> str:
        """Start a container, and return its id."""
        config = {"metadata": {"name": name}, "image": {"image": BUSYBOX}, "command": command, "linux": {}, **more}
        (self._directory / "container.json").write_text(json.dumps(config))
        id = await self.said("create", self.pod, "container.json", "pod.json")
        await self.said("start", id)
        return id


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    try:
        with Embedded.launch() as server:
            yield server
    except Missing as missing:
        do_without("embedded", str(missing))


@pytest.fixture(scope="module")
def program() -> str:
    """crictl 1.36: `$SYNCPOD_CRICTL`, else the cached build, else on PATH."""
    built = cache_directory() / "cri-tools-1.36.0" / "crictl"
    for candidate in (os.environ.get("SYNCPOD_CRICTL"), built, shutil.which("crictl")):
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    do_without("critest", "there is no crictl in SYNCPOD_CRICTL, in the cache or on PATH")


@pytest.fixture(scope="module")
async def crictl(server: Embedded, program: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Crictl]:
    directory = tmp_path_factory.mktemp("crictl")
    (directory / "pod.json").write_text(json.dumps(SANDBOX))
    made = Crictl(program, server.endpoint, directory)
    made.pod = await made.said("runp", "pod.json")
    yield made
    await made.said("rmp", "--force", made.pod)


@pytest.fixture(params=["spdy", "websocket"])
def transport(request: pytest.FixtureRequest) -> str:
    return f"--transport={request.param}"


@pytest.fixture(scope="module")
async def sleeper(crictl: Crictl) -> str:
    return await crictl.container("sleeper", ["sleep", "3600"])


async def test_exec_passes_both_outputs_and_the_exit_code(crictl: Crictl, sleeper: str, transport: str) -> None:
    output, errors, code = await crictl.run("exec", transport, sleeper, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert output == b"out\n"
    assert errors.startswith(b"err\n")
    assert b"command terminated with exit code 7" in errors
    assert code != 0


async def test_exec_loses_no_bytes_in_either_direction(crictl: Crictl, sleeper: str, transport: str) -> None:
    data = os.urandom(5_000_000)
    assert await crictl.run("exec", "-i", transport, sleeper, "cat", stdin=data) == (data, b"", 0)


async def test_exec_of_a_missing_program_is_reported(crictl: Crictl, sleeper: str, transport: str) -> None:
    _, errors, code = await crictl.run("exec", transport, sleeper, "no-such-program")
    assert code != 0
    assert b"no-such-program" in errors


async def test_attach_connects_to_the_containers_input_and_output(crictl: Crictl, transport: str) -> None:
    name = transport.removeprefix("--transport=")
    script = "read line; echo got $line; cat; exit 3"
    id = await crictl.container(name, ["sh", "-c", script], stdin=True, stdin_once=True)
    output, errors, code = await crictl.run("attach", "-i", transport, id, stdin=b"one\ntwo\n")
    assert (output, errors, code) == (b"got one\ntwo\n", b"", 0)


async def test_attach_ends_with_its_input_while_the_container_keeps_its_own(crictl: Crictl, transport: str) -> None:
    id = await crictl.container(f"on-{transport.removeprefix('--transport=')}", ["cat"], stdin=True)
    for _ in range(2):
        _, errors, code = await crictl.run("attach", "-i", transport, id, stdin=b"hi\n")
        assert (errors, code) == (b"", 0)
    assert json.loads(await crictl.said("inspect", id))["status"]["state"] == "CONTAINER_RUNNING"


async def test_port_forward_reaches_a_port_repeatedly(crictl: Crictl, transport: str) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read() + b"bye")
        writer.close()

    address = json.loads(await crictl.said("inspectp", crictl.pod))["status"]["network"]["ip"]
    async with await asyncio.start_server(echo, address, 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        forwarding = await crictl.start("port-forward", transport, crictl.pod, f":{port}")
        assert forwarding.stdout is not None
        try:
            found = re.fullmatch(rb"Forwarding from 127.0.0.1:(\d+) -> \d+\n", await forwarding.stdout.readline())
            assert found is not None
            for data in (b"", b"hello", bytes(1_000_000)):
                reader, writer = await asyncio.open_connection("127.0.0.1", int(found[1]))
                writer.write(data)
                writer.write_eof()
                assert await reader.read() == data + b"bye"
                writer.close()
        finally:
            forwarding.kill()
            await forwarding.wait()
