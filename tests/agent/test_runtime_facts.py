"""A node reports to its fleet the images of its embedded runtime and the limits that it does not enforce."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from syncpod.agent.fleet import runtime_facts
from syncpod.agent.fleet.reports import FleetReports
from syncpod.agent.fleet.runtime_facts import RuntimeFacts
from syncpod.agent.published_pods import PublishedPods
from syncpod.cri.client import CriClient
from syncpod.cri.port import CriRuntime, RuntimeVersion
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


@pytest.mark.parametrize(("unenforced", "told"), [({"memory": "why", "cpu": "why"}, ("cpu", "memory")), ({}, ())])
async def test_a_report_has_the_limits_that_the_runtime_refuses(
    tmp_path: Path, unenforced: dict[str, str], told: tuple[str, ...]
) -> None:
    class Runtime:
        async def status(self, *, verbose: bool) -> SimpleNamespace:
            return SimpleNamespace(info={"config": json.dumps({"limitsUnenforced": unenforced})})

        async def version(self) -> RuntimeVersion:
            return RuntimeVersion("containerd", "2.4.2")

    node = NodeContext(name="n1", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c")
    reports = FleetReports(PublishedPods(node), "n1", runtime=RuntimeFacts(cast("CriRuntime", Runtime())))
    await reports.look_at_runtime()
    report = reports.changed("", 0, [], {})
    assert report is not None and report.node is not None
    assert report.node.unenforced_limits == told


async def test_a_report_has_the_images_with_files_of_their_own(
    server: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Of a runtime that simulates nothing is said: no image matters there."""
    node = NodeContext(name="n1", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="c")
    async with CriClient(server.endpoint) as cri:
        facts = RuntimeFacts(cri)
        reports = FleetReports(PublishedPods(node), "n1", runtime=facts)

        async def reported() -> tuple[str, ...] | None:
            await reports.look_at_runtime()
            told = reports.changed("", 0, [], {})
            assert told is not None and told.node is not None
            return told.node.images

        simulates = request.node.callspec.params["server"] == "--simulate"
        assert await reported() == (None if simulates else ()), "those that were only pulled have no files"
        load(server, tmp_path)
        assert await reported() == (None if simulates else ()), "it has just looked"
        monkeypatch.setattr(runtime_facts, "LOOK_SECONDS", 0.0)
        facts._looks_again = 0.0
        found = await reported()
        if simulates:
            assert found is None
            return
        assert found is not None and [name.partition("@")[0] for name in found] == [NAME, NAME.partition(":")[0]]
        monkeypatch.setattr(runtime_facts, "MOST_BYTES", 10)
        assert await reported() is None, "no list that is not whole"
        monkeypatch.undo()
        facts._looks_again = 0.0
        assert await reported() == found
        server.kill()
        facts._looks_again = 0.0
        assert await reported() == found, "what a runtime that is away had"
