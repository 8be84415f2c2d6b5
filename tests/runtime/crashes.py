"""Kills a server's state machine before each change that it makes on disk, and checks the files that it leaves.

Run it as a process of its own: it forks one child for each killed server, and one for each check. It prints a JSON list
with an entry for each kill: the change that was about to be made, and the errors found afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from protos.cri.v1 import api_pb2 as cri
from syncpod.runtime import host, statuses
from syncpod.runtime.cgroups.limits import Cgroups
from syncpod.runtime.containers import Containers
from syncpod.runtime.images.inventory import ImageStore, parse_reference
from syncpod.runtime.sandboxes import Sandboxes, load_all
from syncpod.runtime.simulation.processes import Simulated
from syncpod.runtime.state import Container, Runtime

ENDS_BY_ITSELF, RUNS_ON = "ends", "runs"
EXIT_CODE = 3
CHANGES = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod"})
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Life:
    """One life of a server in a directory."""

    def __init__(self, directory: Path) -> None:
        self.runtime = Runtime(
            directory,
            Simulated(lambda: None),
            host.look("simulated", os.environ),
            Cgroups(),
            ImageStore(directory / "images"),
        )
        self.containers = Containers(self.runtime)
        self.sandboxes = Sandboxes(self.runtime, self.containers)
        self.config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name="pod", namespace="default", uid="uid"),
            annotations={
                f"simulate.syncpod.dev/{ENDS_BY_ITSELF}": json.dumps({"runTime": "2ms", "exitCode": EXIT_CODE})
            },
        )

    async def boot(self) -> None:
        await load_all(self.runtime, self.sandboxes, self.containers)

    async def live(self) -> None:
        """Run a pod through its whole life: it is run, one container ends, one is stopped, all are removed."""
        self.runtime.images.pull(parse_reference("busybox"))
        id = await self.sandboxes.run(self.config)
        sandbox = self.runtime.sandboxes.get(id, "id")
        made = [self.containers.create(sandbox, container_config(name)) for name in (ENDS_BY_ITSELF, RUNS_ON)]
        for container in made:
            await self.containers.start(container)
        await until_ended(made[0])
        await self.containers.stop(made[1], 10)
        await self.containers.remove(made[0])
        await self.sandboxes.stop(sandbox)
        await self.sandboxes.remove(sandbox)

    async def problems(self) -> list[str]:
        """Return the errors in the directory after a new start; then run the same life again."""
        found = [
            f"{kind}/{directory.name} is there and not listed"
            for kind, registry in (("sandboxes", self.runtime.sandboxes), ("containers", self.runtime.containers))
            for directory in (self.runtime.directory / kind).iterdir()
            if directory.name not in {each.id for each in registry}
        ]
        for container in self.runtime.containers:
            found += await self._problems_of(container)
        for sandbox in self.runtime.sandboxes:
            statuses.sandbox_status(self.runtime, sandbox)
            await self.sandboxes.remove(sandbox)
        await self.live()
        found += [
            f"{left} is left at the end"
            for kind in ("sandboxes", "containers")
            for left in (self.runtime.directory / kind).iterdir()
        ]
        return found

    async def _problems_of(self, container: Container) -> list[str]:
        if container.state == cri.CONTAINER_CREATED and container.sandbox.ready:
            await self.containers.start(container)
        if container.short_name == ENDS_BY_ITSELF and container.state == cri.CONTAINER_RUNNING:
            await until_ended(container)
        status = statuses.container_status(self.runtime, container)
        expected: tuple[tuple[int, str], ...] = ((128, "StartError"),)
        expected += ((EXIT_CODE, "Error"),) if container.short_name == ENDS_BY_ITSELF else ((143, "Error"),)
        if status.state == cri.CONTAINER_EXITED and (status.exit_code, status.reason) not in expected:
            return [f"{container.short_name} has ended with {status.exit_code} {status.reason}"]
        return []


def container_config(name: str) -> cri.ContainerConfig:
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=name), image=cri.ImageSpec(image="busybox"), command=["x"]
    )


async def until_ended(container: Container) -> None:
    assert container.watch is not None
    async with asyncio.timeout(60):
        await asyncio.wait({container.watch})


def die_before(number: int, directory: Path, about: int) -> None:
    """Let this process be killed before the n-th change below the directory, after it has described that to `about`."""
    seen = itertools.count()

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        opens = event == "open" and isinstance(arguments[0], str | bytes) and arguments[2] & WRITING
        if not opens and event not in CHANGES:
            return
        path = Path(os.fsdecode(arguments[0]))
        # A relative one is of a tree that is being removed.
        if path.is_absolute() and not path.is_relative_to(directory):
            return
        if next(seen) == number:
            os.write(about, f"{event} {path.relative_to(directory) if path.is_absolute() else path}".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


def child(work: Callable[[int], Awaitable[None]]) -> tuple[int, str]:
    """Run the work in a forked process; return its wait status, and its output to the given descriptor."""
    reading, writing = os.pipe()
    forked = os.fork()
    if not forked:
        code = 1
        try:
            os.close(reading)
            asyncio.run(_awaited(work, writing))
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent shall know
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    return os.waitpid(forked, 0)[1], said


async def _awaited(work: Callable[[int], Awaitable[None]], writing: int) -> None:
    await work(writing)


def main(root: Path) -> None:
    results = []
    for number in itertools.count():
        directory = root / str(number)
        directory.mkdir()

        async def live(about: int, number: int = number, directory: Path = directory) -> None:
            life = Life(directory)
            await life.boot()
            die_before(number, directory, about)
            await life.live()

        async def look(said: int, directory: Path = directory) -> None:
            life = Life(directory)
            await life.boot()
            for problem in await life.problems():
                os.write(said, f"{problem}\n".encode())

        status, about = child(live)
        if not os.WIFSIGNALED(status):
            # It has lived to its end, or failed by itself.
            results += [{"before": "", "wrong": about}] if about else []
            break
        results.append({"before": about, "wrong": child(look)[1]})
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
