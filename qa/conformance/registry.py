"""A registry of the tests' images, for pods that always pull. The machine may have no access to another registry.

python -m qa.conformance.registry DIRECTORY PORT

It serves one OCI image layout on the loopback address, in place of several registries. Other images are answered 404 at
once; otherwise look-ups of the registries' names would delay the pulls of all pods.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from qa.conformance.namespace import WITHIN
from tests.runtimes.containerd import Containerd

_PORT: Final = 15000
_NAMES: Final = ("registry.k8s.io", "invalid.registry.k8s.io", "docker.io", "gcr.io", "quay.io")
"""The registries that it replaces. Tests that start their own registry use its address."""


@contextlib.contextmanager
def registry(containerd: Containerd, archive: Path, within: Sequence[str] = WITHIN) -> Iterator[None]:
    """During the block, have this containerd pull from the images of an archive."""
    layout = containerd.directory / "registry"
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        tar.extractall(layout)
    for name in _NAMES:
        told = containerd.directory / "registries" / name / "hosts.toml"
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(f'server = "http://127.0.0.1:{_PORT}"\n')
    command = [*within, sys.executable, "-m", "qa.conformance.registry", str(layout), str(_PORT)]
    with (containerd.directory / "registry.log").open("wb") as log:
        serving = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        serving.kill()
        serving.wait()


class Layout:
    """An OCI image layout, whose manifests are found by repository and tag or digest."""

    def __init__(self, directory: Path) -> None:
        """Read the index. Raises OSError."""
        self._directory = directory
        found: dict[tuple[str, str], Mapping[str, str]] = {}
        for each in json.loads((directory / "index.json").read_text())["manifests"]:
            repository, _, tag = each["annotations"]["io.containerd.image.name"].rpartition(":")
            found[repository.partition("/")[2], tag] = each
            found[repository.partition("/")[2], each["digest"]] = each
        self._manifests = found

    def find(self, path: str) -> tuple[bytes, str, str] | None:
        """Return the content at a registry's path, with its media type and its digest; None = there is none."""
        parts = path.partition("?")[0].removeprefix("/v2/").split("/")
        repository, kind, name = "/".join(parts[:-2]), parts[-2] if len(parts) > 2 else "", parts[-1]
        manifest = self._manifests.get((repository, name))
        if kind == "manifests" and manifest is not None:
            return self._blob(manifest["digest"]), manifest["mediaType"], manifest["digest"]
        if kind == "blobs" and name.startswith("sha256:") and self._place(name).is_file():
            return self._blob(name), "application/octet-stream", name
        return None

    def _blob(self, digest: str) -> bytes:
        return self._place(digest).read_bytes()

    def _place(self, digest: str) -> Path:
        return self._directory / "blobs" / "sha256" / Path(digest.removeprefix("sha256:")).name


def server(directory: Path, port: int) -> ThreadingHTTPServer:
    """Return an HTTP server of a layout, which listens but does not serve yet. Raises OSError."""
    layout = Layout(directory)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(has_body=False)

        def do_GET(self) -> None:
            self._answer(has_body=True)

        def _answer(self, *, has_body: bool) -> None:
            found = (b"{}", "application/json", "") if self.path.rstrip("/") == "/v2" else layout.find(self.path)
            content, kind, digest = found or (b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', "application/json", "")
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if digest:
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if has_body:
                self.wfile.write(content)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server(Path(sys.argv[1]), int(sys.argv[2])).serve_forever()
