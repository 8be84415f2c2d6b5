"""Debian's docker-registry on loopback, with an account and images; it can be ended, and reached by a slow proxy."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX, Image, images, write_archive
from tests.runtimes.ports import free_port
from tests.runtimes.processes import Daemon
from tests.runtimes.require import Missing

_CONFIG = """
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {directory}/blobs}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: tests, path: {directory}/htpasswd}}}}
"""
_READY_SECONDS = 20.0


class DockerRegistry(Daemon):
    """One registry in a directory of its own, on a port that it keeps over restarts."""

    def __init__(self, directory: Path, *, user: str, password: str) -> None:
        """Prepare it without starting it. Raises Missing if the machine has none."""
        for program in ("docker-registry", "htpasswd"):
            if shutil.which(program) is None:
                raise Missing(f"{program} is not installed")
        self._directory = directory
        self._account = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.port = free_port()
        made = subprocess.run(["htpasswd", "-nBi", user], input=password.encode(), capture_output=True, check=True)
        (directory / "htpasswd").write_bytes(made.stdout)
        (directory / "config.yml").write_text(_CONFIG.format(directory=directory, port=self.port))

    @property
    def address(self) -> str:
        """The prefix of an image's name."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._directory / "log").open("ab") as log:
            command = ["docker-registry", "serve", str(self._directory / "config.yml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            with contextlib.suppress(ConnectionError):
                self._ask("GET", "/v2/")
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((self._directory / "log").read_text())
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self.start()
        return self

    close = Daemon.kill

    def push(self, image: Image, repository: str, tag: str) -> str:
        """Push an image with plain HTTP; return its manifest's digest."""
        blobs = _blobs(image)
        digest = json.loads(blobs.pop("index.json"))["manifests"][0]["digest"]
        manifest = blobs.pop(digest)
        for name, content in blobs.items():
            begun = self._ask("POST", f"/v2/{repository}/blobs/uploads/")
            location = begun.headers["Location"].split(self.address, 1)[-1]
            self._ask("PUT", f"{location}&digest={name}", content, "application/octet-stream")
        self._ask("PUT", f"/v2/{repository}/manifests/{tag}", manifest, json.loads(manifest)["mediaType"])
        return str(digest)

    def _ask(self, method: str, path: str, content: bytes = b"", kind: str = "") -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Authorization": f"Basic {self._account}", **({"Content-Type": kind} if kind else {})}
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            assert answer.status < 300, f"{method} {path}: {answer.status} {answer.read()!r}"
            answer.read()
            return answer
        finally:
            connection.close()


def announce(runtime: Containerd, address: str) -> None:
    """Configure a containerd to use HTTP for the registry at that address."""
    told = runtime.directory / "registries" / address / "hosts.toml"
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(f'server = "http://{address}"\n')


def fresh_busybox(size: int) -> Image:
    """A busybox image that no runtime has yet, with this many additional bytes that cannot be compressed."""
    [busybox] = [each for each in images() if each.name == BUSYBOX]
    layer = io.BytesIO(busybox.layer)
    with tarfile.open(fileobj=layer, mode="a") as tar:
        entry = tarfile.TarInfo("noise")
        entry.size = size
        tar.addfile(entry, io.BytesIO(os.urandom(size)))
    return Image(busybox.name, layer.getvalue(), busybox.config)


@contextlib.asynccontextmanager
async def slow_way(port: int, *, bytes_per_second: int) -> AsyncIterator[int]:
    """A proxy of a port, which limits the rate of its answers. If a connection behind it breaks, it ends its own."""
    tasks: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, part: int) -> None:
        with contextlib.suppress(OSError):
            while content := await reader.read(part):
                writer.write(content)
                await writer.drain()
                if part < 1 << 16:
                    await asyncio.sleep(part / bytes_per_second)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        both = (pass_on(reader, back, 1 << 16), pass_on(there, writer, max(1, min(bytes_per_second // 20, 1 << 15))))
        await asyncio.gather(*both)

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _blobs(image: Image) -> dict[str, bytes]:
    """An image's blobs by digest, and its index."""
    with tempfile.TemporaryDirectory() as directory:
        archive = Path(directory, "image.tar")
        write_archive(archive, [image])
        with tarfile.open(archive) as tar:
            contents: dict[str, Any] = {entry.name: tar.extractfile(entry) for entry in tar if entry.isfile()}
            files = {name: file.read() for name, file in contents.items()}
    prefix = "blobs/sha256/"
    blobs = {f"sha256:{name.removeprefix(prefix)}": file for name, file in files.items() if name.startswith(prefix)}
    return {**blobs, "index.json": files["index.json"]}
