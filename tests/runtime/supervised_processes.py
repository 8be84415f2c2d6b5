"""Shared parts of the tests of real processes: levels, specifications, and a list of the machine's processes."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel.procfs import process_stat
from syncpod.kernel.tree_removal import remove_tree
from syncpod.runtime.port import Exited, ProcessSpec
from syncpod.runtime.processes.container_handle import ContainerHandle
from syncpod.runtime.processes.records import Level
from syncpod.runtime.processes.supervised import Supervised

PATH = os.environ["PATH"]

PYTHON = os.path.realpath(sys.executable)
"""Python outside of its virtual environment, which may be below /tmp, where a container cannot see it."""


def levels() -> list[Level]:
    """Every level that works for this user."""
    with tempfile.TemporaryDirectory() as directory:
        best, _ = asyncio.run(Supervised.probe(Path(directory)))
    if best is Level.NAMESPACES:
        return [Level.NAMESPACES, Level.USER_NAMESPACES, Level.PLAIN]
    return [best, Level.PLAIN] if best is not Level.PLAIN else [best]


LEVELS = levels()
WITH_OWN_ROOT = [each for each in LEVELS if each is not Level.PLAIN]


class Machine:
    """A server's processes in a directory of their own, and later servers with the same directory."""

    def __init__(self, level: Level, directory: Path) -> None:
        self.level = level
        self.directory = directory
        self.processes = Supervised(level=level, links=directory / "links")

    async def start(self, *arguments: str, name: str = "c", **more: Any) -> ContainerHandle:
        environment = more.pop("environment", (("PATH", PATH),))
        spec = ProcessSpec(id=name, arguments=arguments, environment=environment, **more)
        return await self.processes.start(spec, self.place(name))

    async def run(self, *arguments: str, name: str = "c", **more: Any) -> tuple[Exited, list[str]]:
        """Run to the end; also return the lines of its log, as `<stream> <tag> <text>`."""
        log = self.directory / "logs" / f"{name}.log"
        process = await self.start(*arguments, name=name, log_path=str(log), **more)
        return await process.wait(), lines(log)

    def place(self, name: str = "c") -> Path:
        place = self.directory / name
        place.mkdir(exist_ok=True)
        return place

    async def restart(self) -> None:
        """Replace this server by a new one."""
        await self.processes.close()
        self.processes = Supervised(level=self.level, links=self.directory / "links")

    async def found(self, name: str = "c") -> ContainerHandle:
        found = await self.processes.find(self.place(name))
        assert isinstance(found, ContainerHandle)
        return found

    async def end(self) -> None:
        """End all processes that were started here, and remove the kernel's directories of mode 000: pytest cannot."""
        for place in [each for each in self.directory.iterdir() if (each / "spec.json").exists()]:
            found = await self.processes.find(place)
            if isinstance(found, ContainerHandle):
                found.kill()
                await found.wait()
        await self.processes.close()
        for layers in self.directory.glob("*/layers"):
            remove_tree(layers)


@asynccontextmanager
async def machine_at(level: Level, directory: Path) -> AsyncIterator[Machine]:
    machine = Machine(level, directory)
    try:
        yield machine
    finally:
        await machine.end()


def each_machine(*levels: Level) -> Any:
    """A fixture: a machine on each of these levels in turn."""

    @pytest.fixture(params=levels, ids=lambda level: level.value)
    async def machine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Machine]:
        async with machine_at(request.param, tmp_path) as made:
            yield made

    return machine


def lines(log: Path) -> list[str]:
    """The log's lines without their times."""
    return [line.split(" ", 1)[1] for line in log.read_text().splitlines()] if log.exists() else []


def runs(pid: int) -> bool:
    stat = process_stat(pid)
    return stat is not None and stat.state not in "ZX"


async def until(condition: Any) -> None:
    """Wait until the condition is true; only the test's own time limit ends the wait."""
    while not condition():  # noqa: ASYNC110 - what is waited for is outside this process
        await asyncio.sleep(0.005)
