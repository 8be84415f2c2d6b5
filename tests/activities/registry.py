"""An image registry on loopback that serves one image under any name; tests make it slow or make it fail."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import json
import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.activities.bench import until
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX, images, write_archive

ABSENT_TAG = "absent"


class Registry:
    """The registry: `address` is the prefix of an image's name; `requests` has the requested manifests, in order."""

    def __init__(self, blobs: dict[str, bytes], manifest: str) -> None:
        self._blobs = blobs
        self._manifest = manifest
        self.requests: list[str] = []
        self.open = threading.Event()
        """While it is not set, requests for a manifest wait."""
        self.open.set()
        self.status = 0
        """If not 0, the status of every answer."""
        self.accounts: dict[str, str] = {}
        """Passwords by name; while there are any, a request without one is answered 401."""
        self.seen: list[str] = []
        """The names in the requests, in order; "" for a request without one."""
        self.bytes_per_second = 0
        """If not 0, the rate at which blobs are sent."""
        self.address = ""

    def announce_to(self, runtime: Containerd) -> None:
        """Configure the runtime to use HTTP for this registry: containerd 1.6 does so for localhost, 2.4 does not."""
        told = runtime.directory / "registries" / self.address / "hosts.toml"
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(f'server = "http://{self.address}"\n')

    async def asked(self) -> None:
        """Wait until a manifest has been requested."""

        async def has_been() -> bool:
            return bool(self.requests)

        await until(has_been)

    def admits(self, authorization: str) -> bool:
        """Return whether a request with this Authorization header is allowed."""
        kind, _, encoded = authorization.partition(" ")
        name, _, password = (base64.b64decode(encoded).decode() if kind == "Basic" else "").partition(":")
        self.seen.append(name)
        return not self.accounts or (bool(name) and self.accounts.get(name) == password)

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, media type and body for a path of the distribution API."""
        if self.status:
            return self.status, "text/plain", b"out of order"
        if path.rstrip("/") == "/v2":
            return 200, "application/json", b"{}"
        kind, _, reference = path.rpartition("/")
        if kind.endswith("/manifests"):
            self.requests.append(path)
            self.open.wait()
            if reference == ABSENT_TAG:
                return 404, "application/json", b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}'
            return 200, "application/vnd.oci.image.manifest.v1+json", self._blobs[self._manifest]
        blob = self._blobs.get(reference)
        return (404, "text/plain", b"") if blob is None else (200, "application/octet-stream", blob)

    @property
    def manifest_digest(self) -> str:
        return self._manifest


@contextlib.contextmanager
def registry(*, noise: int = 0) -> Iterator[Registry]:
    """A registry that listens until the block ends.

    With `noise` its image is that many random bytes, which no runtime has yet, instead of a busybox that can start.
    """
    served = Registry(*_image(noise))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            if served.admits(self.headers.get("Authorization", "")):
                status, media_type, content = served.answer(self.path)
            else:
                status, media_type, content = 401, "text/plain", b"who are you?"
            with contextlib.suppress(ConnectionError):  # the client has closed the connection
                self.send_response(status)
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(content)))
                if "/manifests/" in self.path and status == 200:
                    self.send_header("Docker-Content-Digest", served.manifest_digest)
                if status == 401:
                    self.send_header("WWW-Authenticate", 'Basic realm="tests"')
                self.end_headers()
                if body:
                    self._send(content)

        def _send(self, content: bytes) -> None:
            part = served.bytes_per_second // 20 or len(content) or 1
            for start in range(0, len(content), part):
                self.wfile.write(content[start : start + part])
                if served.bytes_per_second:
                    time.sleep(0.05)

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        served.address = f"localhost:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield served
        finally:
            served.open.set()
            server.shutdown()
            thread.join()


def _image(noise: int) -> tuple[dict[str, bytes], str]:
    """The blobs of a small image by digest, and its manifest's digest."""
    with tempfile.TemporaryDirectory() as directory:
        archive = Path(directory, "image.tar")
        [busybox] = [each for each in images() if each.name == BUSYBOX]
        # Under an id of its own: the runtime would take it for the busybox that it has.
        config = {**busybox.config, "Labels": {"from": "registry"}}
        layer = _noise(noise) if noise else busybox.layer
        write_archive(archive, [dataclasses.replace(busybox, config=config, layer=layer)])
        with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
            files = {entry.name: tar.extractfile(entry) for entry in tar if entry.isfile()}
            contents = {name: file.read() for name, file in files.items() if file is not None}
    prefix = "blobs/sha256/"
    blobs = {
        f"sha256:{name.removeprefix(prefix)}": content for name, content in contents.items() if name.startswith(prefix)
    }
    return blobs, json.loads(contents["index.json"])["manifests"][0]["digest"]


def _noise(size: int) -> bytes:
    """A layer of one file that cannot be compressed."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo("noise")
        entry.size = size
        tar.addfile(entry, io.BytesIO(os.urandom(size)))
    return buffer.getvalue()
