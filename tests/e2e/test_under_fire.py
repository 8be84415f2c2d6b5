"""Fifty pods whose worker, runtime and Temporal server are killed while they change: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import logging
import random  # noqa: TID251  # a seeded order of what is done
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.service import RPCError

from bench.takeover import PODS, run
from syncpod.cri.names import CONTAINER_HASH_ANNOTATION
from syncpod.pod import container_hash
from tests.e2e.faults_census import census
from tests.e2e.faults_support import FaultyNode, Pod, faulty_node, open_to_all, shell, until
from tests.runtimes.images import BUSYBOX_2
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

log = logging.getLogger("faults")

pytestmark = pytest.mark.parametrize("runtime", ["embedded", "containerd24"], indirect=True)
"""Fifty pods on one containerd are enough."""

SEED = 20
"""Of the order and the pauses of what is done. What the machine makes of it is another thing each time."""
CONVERGED = 180.0
"""Seconds for which a pod is given to come to its end: what failed under fire is tried again after 10 s, then 20."""

_RUNS = "trap 'exit 0' TERM; while [ ! -e /out/crash ]; do sleep 1; done; rm /out/crash; exit 7"
_RESTS = "trap 'exit 0' TERM; while :; do sleep 1; done"
"""A hundred containers that look around ten times a second would leave the machine no time for the rest."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def faulty(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FaultyNode]:
    """A node with a Temporal server of its own, which is killed with the rest."""
    with await asyncio.to_thread(DevServer.launch) as server:
        async with faulty_node(runtime, server, tmp_path_factory.mktemp("node")) as node:
            yield node


async def test_fifty_pods_answer_the_next_worker_untouched_and_knowing_all(node: FaultyNode, tmp_path: Path) -> None:
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    takeover = await run(node, tmp_path / "out")
    log.info("%s: %d pods answered after %.1f s", node.runtime.name, PODS, takeover.answers[-1])
    assert len(takeover.answers) == PODS
    assert (takeover.restarted, takeover.lost) == ((), ())


@dataclass
class Fire:
    """What is done to a node and its pods, and what is to come of it."""

    node: FaultyNode
    place: Path
    chance: random.Random
    untouched: list[Pod] = field(default_factory=list)
    crashed: list[Pod] = field(default_factory=list)
    updated: list[Pod] = field(default_factory=list)
    deleted: list[Pod] = field(default_factory=list)

    async def apply(self, number: int) -> Pod:
        """Apply a pod with two containers, of which one can be told to crash."""
        home = self.place / f"{number:02}"
        await asyncio.to_thread(open_to_all, home)
        web = shell("web", _RUNS, volumeMounts=[{"name": "out", "mountPath": "/out"}])
        volumes = [{"name": "out", "hostPath": {"path": str(home)}}]
        return await self.node.apply(web, shell("api", _RESTS), volumes=volumes, name=f"fire-{number:02}")

    async def crash(self, pod: Pod) -> None:
        """Have its container `web` exit with 7, now or as soon as it runs."""
        await asyncio.to_thread((self.place / pod.name.removeprefix("fire-") / "crash").touch)
        self.crashed.append(pod)

    async def update(self, pod: Pod) -> None:
        """Give its container `web` another image; repeated until the server has taken it, as a person would."""
        web, api = pod.document["spec"]["containers"]
        document = {**pod.document, "spec": {**pod.document["spec"], "containers": [{**web, "image": BUSYBOX_2}, api]}}
        await _taken(lambda: pod.handle.signal("update_pod", document))
        self.updated.append(pod)

    async def delete(self, pod: Pod) -> None:
        """Delete it."""
        await _taken(lambda: pod.handle.signal("delete_pod", {}))
        self.deleted.append(pod)

    async def kill_worker(self) -> None:
        """Kill the worker, and have another serve after a while."""
        await self.node.kill()
        await self._pause()
        await self.node.serve()

    async def kill_runtime(self) -> None:
        """Kill the runtime, and start it again after a while."""
        self.node.runtime.kill()
        await self._pause()
        await asyncio.to_thread(self.node.runtime.start)
        await until(self.node.cri.version)  # the test's own connection too is made anew after a while

    async def kill_server(self) -> None:
        """Kill the Temporal server, and start it again after a while."""
        self.node.server.kill()
        await self._pause()
        await asyncio.to_thread(self.node.server.start)

    async def _pause(self) -> None:
        await asyncio.sleep(self.chance.uniform(0, 1.5))

    async def burn(self, pods: list[Pod]) -> None:
        """Do everything, the pods' changes all through the deaths of the three."""
        order = self.chance.sample(pods, len(pods))
        changes: list[tuple[Callable[[Pod], Awaitable[None]], Pod]] = []
        for change in (self.crash, self.update, self.delete):
            changes += [(change, order.pop()) for _ in range(10)]
        self.untouched = order
        self.chance.shuffle(changes)

        async def change_all() -> None:
            for change, pod in changes:
                await change(pod)
                await asyncio.sleep(self.chance.uniform(0, 0.6))

        deaths = [self.kill_worker] * 3 + [self.kill_runtime] * 2
        self.chance.shuffle(deaths)
        deaths.insert(2, self.kill_server)
        changing = asyncio.create_task(change_all())
        for death in deaths:
            log.info("%s", death.__name__)
            await death()
            await self._pause()
        await changing


async def _taken(call: Callable[[], Awaitable[None]]) -> None:
    """Repeat a call until the server has taken it."""
    async with asyncio.timeout(CONVERGED):
        while True:
            try:
                return await call()
            except RPCError as away:
                log.debug("%s", away)
                await asyncio.sleep(0.2)


async def test_fifty_pods_converge_after_everything_was_killed_while_they_were_changed(
    node: FaultyNode, tmp_path: Path
) -> None:
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    log.info("seed %d", SEED)
    fire = Fire(node, tmp_path, random.Random(SEED))
    async with census(node.cri, node.name) as seen:
        # The first of them are still starting when the first death comes.
        pods = [await fire.apply(number) for number in range(PODS)]
        await fire.burn(pods)
        await asyncio.gather(*(pod.gone(patience=CONVERGED) for pod in fire.deleted))
        await asyncio.gather(*(pod.running(patience=CONVERGED) for pod in fire.untouched))
        await asyncio.gather(*(pod.running(patience=CONVERGED, web=1) for pod in fire.crashed))
        replaced = await asyncio.gather(*(has_the_other_image(pod) for pod in fire.updated))
    assert [len(fire.untouched), len(fire.crashed), len(fire.updated), len(fire.deleted)] == [20, 10, 10, 10]
    restarts = dict(zip((pod.name for pod in fire.updated), replaced, strict=True))
    # What had not started when it was given another image has not been restarted.
    assert set(replaced) <= {0, 1}
    left = [*fire.untouched, *fire.crashed, *fire.updated]
    for pod in left:
        await pod.assert_whole(sandbox=None, web=1 if pod in fire.crashed else restarts.get(pod.name, 0))
    assert seen.duplicates == set()
    await asyncio.gather(*(pod.delete() for pod in left))


async def has_the_other_image(pod: Pod) -> int:
    """Wait until a pod's container `web` runs from the other image, by the runtime; how often it was restarted."""
    made_from = container_hash("web", BUSYBOX_2)

    async def replaced() -> tuple[int, ...]:
        web = [each for each in await pod.containers() if each.name == "web" and each.state == "running"]
        return tuple(each.attempt for each in web if each.annotations[CONTAINER_HASH_ANNOTATION] == made_from)

    (restarts,) = await until(replaced, patience=CONVERGED)
    await pod.running(patience=CONVERGED, web=restarts)
    return int(restarts)
