"""critest, the conformance suite of CRI runtimes, on the embedded runtime: passes and failures are as listed.

Holds: The embedded runtime is a runtime like the others.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from qa.critest import critest
from tests.runtimes.embedded import Embedded
from tests.runtimes.require import Missing, cache_directory, do_without


@pytest.fixture(scope="module")
def program() -> Path:
    """critest 1.36: `$SYNCPOD_CRITEST`, else the cached build, else on PATH."""
    built = cache_directory() / "cri-tools-1.36.0" / "critest"
    for candidate in (os.environ.get("SYNCPOD_CRITEST"), built, shutil.which("critest")):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    do_without("critest", "there is none in SYNCPOD_CRITEST, in the cache or on PATH")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server with programs on its PATH for those of critest's images that it does not have."""
    try:
        with critest.programs() as programs, Embedded.launch(programs=programs) as server:
            critest.load_images(server.state_dir, tmp_path_factory.mktemp("images"))
            yield server
    except Missing as missing:
        do_without("critest", str(missing))


async def test_every_spec_is_listed_either_as_passing_or_as_excused(program: Path, tmp_path: Path) -> None:
    specs = await critest.run(program, tmp_path, options=("--ginkgo.dry-run",))
    assert len(specs) == 122
    passing, excused = critest.expected(), critest.excused()
    assert len(set(passing)) == len(passing)
    assert set(passing).isdisjoint(excused)
    assert {*passing, *excused} == set(specs)


async def test_the_specs_listed_as_passing_pass(program: Path, server: Embedded, tmp_path: Path) -> None:
    outcomes = await critest.run(program, tmp_path, endpoint=server.endpoint, only=critest.expected())
    wrong = {name: outcomes[name] for name in critest.expected() if outcomes[name].state != "passed"}
    assert wrong == {}, (tmp_path / "output").read_text(errors="replace")[-8000:]
    await asyncio.to_thread(server.restart)  # it has not been harmed
