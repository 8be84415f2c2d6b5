"""The registry of the tests' images serves the images of its layout under every registry's name, and no others."""

from __future__ import annotations

import http.client
import json
import tarfile
import threading
from pathlib import Path

from qa.conformance.registry import server
from tests.runtimes.images import Image, layer_of, write_archive


def test_an_image_is_served_by_tag_and_digest_with_its_blobs(tmp_path: Path) -> None:
    archive, layout = tmp_path / "images.tar", tmp_path / "layout"
    write_archive(archive, [Image("registry.example/tests/web:1.0", layer_of({"file": b"text"}), {"Cmd": ["web"]})])
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        tar.extractall(layout)
    serving = server(layout, 0)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", serving.server_address[1], timeout=60)

    def ask(path: str, method: str = "GET") -> tuple[int, bytes, str]:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("Docker-Content-Digest", "")

    try:
        code, manifest, digest = ask("/v2/tests/web/manifests/1.0?ns=registry.example")
        assert code == 200
        assert ask(f"/v2/tests/web/manifests/{digest}") == (200, manifest, digest)
        assert ask("/v2/tests/web/manifests/1.0", "HEAD") == (200, b"", digest)
        config = json.loads(manifest)["config"]["digest"]
        assert json.loads(ask(f"/v2/tests/web/blobs/{config}")[1])["config"] == {"Cmd": ["web"]}
        for absent in ("/v2/tests/web/manifests/2.0", "/v2/web/manifests/1.0", "/v2/tests/web/blobs/sha256:..", "/x"):
            assert ask(absent)[0] == 404
    finally:
        serving.shutdown()
        serving.server_close()
