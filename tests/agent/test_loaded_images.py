"""A node tells its fleet which images were loaded on its embedded runtime, which pulls none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.agent.fleet import loaded_images
from syncpod.agent.fleet.loaded_images import LoadedImages
from syncpod.agent.fleet.reports import FleetReports
from syncpod.agent.published_pods import PublishedPods
from syncpod.cri.client import CriClient
from syncpod.translation.context import NodeContext
from tests.runtime.image_files import Layout, entry, layer, write_tar
from tests.runtimes.embedded import ROOT, Embedded

NAME = "example.test/app:1"


@pytest.fixture(scope="module", params=["", "--simulate"])
def server(request: pytest.FixtureRequest) -> Iterator[Embedded]:
    with Embedded.launch(*filter(None, [request.param])) as server:
        yield server


def load(server: Embedded, directory: Path) -> None:
    file = write_tar(directory / "image.tar", Layout((layer(entry("hello", b"hello\n")),), {}, NAME).files())
    command = [sys.executable, "-m", "syncpod.runtime.load", "--state-dir", str(server.state_dir), str(file)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


async def test_a_report_has_the_images_with_files_of_their_own(
    server: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Of a runtime that simulates nothing is said: no image matters there."""
    node = NodeContext(name="n1", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c")
    async with CriClient(server.endpoint) as cri:
        images = LoadedImages(cri)
        reports = FleetReports(PublishedPods(node), "n1", images=images)

        async def reported() -> tuple[str, ...] | None:
            await reports.look_at_images()
            told = reports.changed("", 0, [], {})
            assert told is not None and told.node is not None
            return told.node.images

        simulates = request.node.callspec.params["server"] == "--simulate"
        assert await reported() == (None if simulates else ()), "those that were only pulled have no files"
        load(server, tmp_path)
        assert await reported() == (None if simulates else ()), "it has just looked"
        monkeypatch.setattr(loaded_images, "LOOK_SECONDS", 0.0)
        images._looks_again = 0.0
        found = await reported()
        if simulates:
            assert found is None
            return
        assert found is not None and [name.partition("@")[0] for name in found] == [NAME, NAME.partition(":")[0]]
        monkeypatch.setattr(loaded_images, "MOST_BYTES", 10)
        assert await reported() is None, "no list that is not whole"
        monkeypatch.undo()
        images._looks_again = 0.0
        assert await reported() == found
        server.kill()
        images._looks_again = 0.0
        assert await reported() == found, "what a runtime that is away had"
