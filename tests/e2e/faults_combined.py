"""Causes all faults of a node at once, while its pods change, and counts them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random  # noqa: TID251  # a seeded order of what is done
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from temporalio.service import RPCError

from tests.e2e.faults_clock import DAY, HOUR, Clock
from tests.e2e.faults_disk import FULL, filled
from tests.e2e.faults_proxy import Stopped, When
from tests.e2e.faults_support import FaultyNode, Pod, open_to_all, shell, until
from tests.e2e.words import Word, waits_for
from tests.runtimes.images import BUSYBOX_2

log = logging.getLogger("faults")

CONVERGED = 180.0
"""The seconds that a pod has to converge: steps that failed meanwhile are retried after 10 s, then 20 s."""
FILLS = 3
"""The number of times that the disk is full."""
_FELT = 10.0
"""The seconds within which a full disk must affect a pod; it may first find space that another pod freed."""
HANGS: tuple[tuple[str, When], ...] = (
    ("RunPodSandbox", "before"),
    ("CreateContainer", "after"),
    ("StartContainer", "before"),
    ("StopContainer", "before"),
    ("StopPodSandbox", "after"),
)
"""Calls that hang, one of each kind at a time: before they reach the runtime, or after it has done them."""
_PLACES = (DAY, -DAY, 3 * HOUR, -HOUR, 90, -90, 0)
"""The targets of the clock's jumps, in seconds ahead of the true time."""

_T = TypeVar("_T")
_OUT = {"name": "out", "mountPath": "/out"}
_NOTES = 'note() { echo "$1" >>/out/$0; }; note started; '
_RUNS = "trap 'exit 0' TERM; " + _NOTES + f"{waits_for('/out/crash')}; note crashed; exit 7"
_RESTS = "trap 'exit 0' TERM; " + _NOTES + waits_for("/out/rest")


@dataclass
class FaultRun:
    """The faults of a node, the changes to its pods, and the outcome that is expected."""

    node: FaultyNode
    place: Path
    disk: Path
    """The disk of the node's state and its pods' logs."""
    clock: Clock
    """The worker's clock."""
    seed: int
    """The seed of the order and the pauses of faults. The machine's reaction differs each time."""
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the worker serves."""
    pods: list[Pod] = field(default_factory=list)
    untouched: list[Pod] = field(default_factory=list)
    words: dict[str, Word] = field(default_factory=dict)
    """The words at which pods crash, by the pod's name."""
    crashed: list[Pod] = field(default_factory=list)
    updated: list[Pod] = field(default_factory=list)
    deleted: list[Pod] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    """The number of times that each fault happened."""

    def __post_init__(self) -> None:
        """Give each kind of fault a random sequence of its own, so that no draw changes the others."""
        self.chance = {
            each: random.Random(f"{self.seed} {each}") for each in ("change", "kill", "fill", "jump", "renew")
        }

    async def apply(self) -> Pod:
        """Apply a pod with two containers, which note their starts. One of them can be told to crash."""
        name = f"fire-{len(self.pods):02}"
        home = self.place / name
        await asyncio.to_thread(open_to_all, home)
        self.words[name] = await asyncio.to_thread(Word.make, home / "crash")
        containers = [
            {**shell(each), "command": ["sh", "-c", script, each], "volumeMounts": [_OUT]}
            for each, script in (("web", _RUNS), ("api", _RESTS))
        ]
        volumes = [{"name": "out", "hostPath": {"path": str(home)}}]
        pod = await _taken(lambda: self.node.apply(*containers, volumes=volumes, name=name))
        self.pods.append(pod)
        return pod

    def notes(self, pod: Pod, container: str) -> Counter[str]:
        """The notes of a container, over all its instances, and how often each occurs."""
        file = self.place / pod.name / container
        return Counter(file.read_text().split() if file.exists() else ())

    # --- what is done to pods -----------------------------------------------------------------------------------------

    async def crash(self, pod: Pod) -> None:
        """Have its container `web` exit with 7, now or as soon as it runs."""
        self.words[pod.name].say()
        self.crashed.append(pod)

    async def update(self, pod: Pod) -> None:
        """Give its container `web` another image; repeats that until the server has accepted it, as a person would."""
        web, api = pod.document["spec"]["containers"]
        document = {**pod.document, "spec": {**pod.document["spec"], "containers": [{**web, "image": BUSYBOX_2}, api]}}
        await _taken(lambda: pod.handle.signal("update_pod", document))
        self.updated.append(pod)

    async def delete(self, pod: Pod) -> None:
        """Delete it."""
        await _taken(lambda: pod.handle.signal("delete_pod", {}))
        self.deleted.append(pod)

    async def _change(self, changes: Sequence[tuple[Callable[[Pod], Awaitable[None]], Pod]]) -> None:
        for change, pod in changes:
            await change(pod)
            await asyncio.sleep(self.chance["change"].uniform(0, 0.6))

    # --- what is done to the node -------------------------------------------------------------------------------------

    async def kill_worker(self) -> None:
        """Kill the worker, and start others after a while until one serves, which none does on a full disk."""
        self.serving.clear()
        await self.node.kill()
        await self._pause("kill")
        while True:
            try:
                await self.node.serve()
            except AssertionError:
                if await self.node.worker.ended() != 2:
                    raise
                self.faults["worker refused to serve"] += 1
            else:
                return self.serving.set()

    async def kill_runtime(self) -> None:
        """Kill the runtime, and start it again after a while."""
        self.node.runtime.kill()
        await self._pause("kill")
        await asyncio.to_thread(self.node.runtime.start)
        await until(self.node.cri.version)  # the test's own connection also takes a while to reconnect

    async def kill_server(self) -> None:
        """Kill the Temporal server, and start it again after a while."""
        self.node.server.kill()
        await self._pause("kill")
        await asyncio.to_thread(self.node.server.start)

    async def _kill(self) -> None:
        deaths = [self.kill_worker] * 3 + [self.kill_runtime] * 2
        self.chance["kill"].shuffle(deaths)
        deaths.insert(2, self.kill_server)
        for death in deaths:
            log.info("%s", death.__name__)
            await death()
            self.faults[death.__name__] += 1
            await self._pause("kill")

    async def _fill(self) -> None:
        """Fill the disk of a serving worker, and apply a pod until that is affected; repeats both if need be."""
        while self.faults["full disk"] < FILLS:
            await self._pause("fill")
            await self.serving.wait()
            refused = self.faults["worker refused to serve"]
            with filled(self.disk) as fill_again:
                pod = await self.apply()
                self.untouched.append(pod)
                ends = time.monotonic() + _FELT
                # On a full disk a new worker refuses to serve, and without a worker no pod is affected.
                while refused == self.faults["worker refused to serve"] and time.monotonic() < ends:
                    fill_again()
                    if await _is_told(pod, FULL):
                        self.faults["full disk"] += 1
                        break
                    await asyncio.sleep(0.1)
                await self._pause("fill")

    async def _jump(self) -> None:
        """Let the clock jump ahead and back, without end."""
        now = 0
        while True:
            ahead = self.chance["jump"].choice([each for each in _PLACES if each != now])
            self.clock.jump(ahead)
            self.faults["clock ahead" if ahead > now else "clock back"] += 1
            now = ahead
            await self._pause("jump")

    async def _renew(self) -> None:
        """Let one pod after another continue as new, whatever it is doing, without end."""
        while True:
            with contextlib.suppress(RPCError):  # the server is dead, or the pod has ended
                await self.chance["renew"].choice(self.pods).handle.signal("renew", {})
                self.faults["renew"] += 1
            await asyncio.sleep(self.chance["renew"].uniform(0, 0.2))

    async def _pause(self, doing: str) -> None:
        await asyncio.sleep(self.chance[doing].uniform(0, 1.5))

    # --- all of it ----------------------------------------------------------------------------------------------------

    async def run(self, count: int) -> None:
        """Apply this many pods and cause all faults, while the pods are changed.

        Half of them run by then, the others start in the fault_run. Calls hang as long as anything else goes on.
        """
        self.serving.set()
        pods = [await self.apply() for _ in range(count // 2)]
        await asyncio.gather(*(pod.running(patience=CONVERGED) for pod in pods))
        with self._hanging() as hung:
            pods += [await self.apply() for _ in range(count - FILLS - len(pods))]
            order = self.chance["change"].sample(pods, len(pods))
            each_way = (self.crash, self.update, self.delete)
            changes = [(change, order.pop()) for change in each_way for _ in range(count // 5)]
            self.chance["change"].shuffle(changes)
            self.untouched += order
            endless = [asyncio.create_task(each) for each in (self._jump(), self._renew())]
            finite = [asyncio.create_task(each) for each in (self._change(changes), self._fill(), self._kill())]
            try:
                await asyncio.gather(*finite)
                await asyncio.gather(*(self._hung(*call, stopped) for call, stopped in hung.items()))
                assert not any(each.done() for each in endless), endless
            finally:
                for each in (*endless, *finite):
                    each.cancel()
                await asyncio.gather(*endless, *finite, return_exceptions=True)
                self.clock.jump(0)

    async def _hung(self, method: str, when: When, stopped: Stopped) -> None:
        """Wait until a call of this kind hangs."""
        try:
            await stopped.reached(patience=60)
        except TimeoutError:
            raise AssertionError(f"there was no {method} to hang") from None
        self.faults[f"hung {when} {method}"] = stopped.arrived

    @contextlib.contextmanager
    def _hanging(self) -> Iterator[dict[tuple[str, When], Stopped]]:
        with contextlib.ExitStack() as stops:
            yield {call: stops.enter_context(self.node.proxy.stop(*call, calls=1)) for call in HANGS}


async def _is_told(pod: Pod, words: str) -> bool:
    """Return whether a pod has an event with these words, from any source that can answer now."""
    try:
        events = await pod.handle.query("events", rpc_timeout=timedelta(seconds=1))
    except RPCError as away:
        log.debug("%s", away)
        return False
    return any(words in event["message"] for event in events)


async def _taken(call: Callable[[], Awaitable[_T]]) -> _T:
    """Repeat a call until the server accepts it."""
    async with asyncio.timeout(CONVERGED):
        while True:
            try:
                return await call()
            except RPCError as away:
                log.debug("%s", away)
                await asyncio.sleep(0.2)
