"""A chaos run: pods are applied and deleted while worker, runtime and server are killed, stopped and slowed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random  # noqa: TID251  # a seeded order of what is done
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from qa.chaos import notes, pods
from qa.chaos.checker import Verdict, Violation, check
from qa.chaos.faults import FAULTS
from qa.chaos.record import PodRecord
from qa.chaos.rest import Look, look_at, restless
from qa.chaos.stack import NODE, Stack
from syncpod.messages.identity import POD_WORKFLOW
from syncpod.pod import Pod
from syncpod.temporal.workflow_starts import start_arguments

MOST = 12
"""The most pods at a time."""
PATIENCE = 180.0
"""The seconds after the last fault in which pods must come to rest, and in which they must end."""
LOOKS = 5
"""The fewest reads of a pod before it counts as restless. One read takes up to a minute under load."""
REFUSED = 2
"""The exit code of a worker that finds no runtime; its supervisor starts it again."""
_RPC = timedelta(seconds=5)

_T = TypeVar("_T")


def slowness() -> float:
    """Return how much slower this machine is than an idle one. Pauses between faults are longer by this factor."""
    return max(1.0, os.getloadavg()[0] / (4 * (os.cpu_count() or 1)))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@dataclass
class LivePod:
    """A pod that was applied."""

    document: dict[str, Any]
    handle: WorkflowHandle[Any, Any]
    deleting: bool = False
    terminated: bool = False
    resets: list[str] = field(default_factory=list)
    """The ids of the runs that were reset."""
    watch: asyncio.Task[PodRecord] | None = None

    @property
    def name(self) -> str:
        name: str = self.document["metadata"]["name"]
        return name


@dataclass
class Chaos:
    """One run of chaos on one node."""

    stack: Stack
    seed: int
    seconds: float
    pods: list[LivePod] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    killed: set[str] = field(default_factory=set)
    """The ids of the instances that were sent SIGKILL."""
    awaits_worker: bool = False
    """Whether a task that will kill the worker waits until the worker serves."""
    records: list[PodRecord] = field(default_factory=list)
    """The engine's answers about each pod that has ended."""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        # Each fault has its own random sequence, so that a draw for one does not change the draws for others.
        self.chance = {each: random.Random(f"{self.seed} {each}") for each in ("faults", "pods", *FAULTS)}
        self.parts = {part: asyncio.Lock() for part in ("worker", "runtime", "server")}

    async def run(self) -> Verdict:
        """Cause faults until the time is over, wait until the pods are at rest, delete all pods, and judge."""
        changes = asyncio.create_task(self._change())
        keeping = asyncio.create_task(self._keep())
        try:
            await self._break()
            await changes
            self.log("nothing is broken any more")
            self.stack.be_late(0)
            verdict = await self._at_rest()
            verdict.violations += await self._end()
            self.records = [pod.watch.result() for pod in self.pods if pod.watch is not None and pod.watch.done()]
            final = check(notes.read(self.stack.out), self.records, self.killed)
            verdict.violations += [each for each in final.violations if each not in verdict.violations]
            verdict.figures = final.figures
            verdict.violations += [Violation("nothing left", "node", each) for each in await self._left()]
            verdict.figures["empty shims that a killed containerd has forgotten"] = len(self.stack.forgotten_shims())
            namespaces = len(self.stack.forgotten_namespaces())
            verdict.figures["network namespaces that a killed containerd has forgotten"] = namespaces
        finally:
            for task in (changes, keeping, *(pod.watch for pod in self.pods if pod.watch is not None)):
                task.cancel()
        for code in self.stack.ended_by_itself:
            if code == REFUSED:
                verdict.figures["workers that refused to serve"] += 1
            else:
                verdict.violations.append(Violation("the worker lives", "node", f"it ended by itself with {code}"))
        return verdict

    def log(self, line: str) -> None:
        """Log an action, with the seconds since the start."""
        say(f"{time.monotonic() - self.began:8.1f}  {line}")

    @property
    def live(self) -> list[LivePod]:
        """The pods that were neither deleted nor terminated."""
        return [pod for pod in self.pods if not pod.deleting and not pod.terminated]

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.began > self.seconds

    async def is_served(self) -> bool:
        """Wait until a worker serves, and return True; False if the time is over, or if another task already waits."""
        if self.awaits_worker:
            return False
        self.awaits_worker = True
        try:
            while not self.stack.is_served and not self.is_over:  # noqa: ASYNC110  # a process tells nobody
                await asyncio.sleep(0.2)
        finally:
            self.awaits_worker = False
        return self.stack.is_served

    # --- pods ---------------------------------------------------------------------------------------------------------

    async def _change(self) -> None:
        """Apply and delete pods."""
        chance = self.chance["pods"]
        while not self.is_over:
            busy = [pod for pod in self.pods if pod.watch is not None and not pod.watch.done()]
            grows = chance.random() < 0.6
            if len(busy) < MOST and grows:
                await self.apply(pods.draw(chance, f"p{len(self.pods):03}", self.stack.directory))
            elif not grows and len(self.live) > MOST // 3:
                await self._delete(chance.choice(self.live))
            await asyncio.sleep(chance.uniform(0.2, 3))

    async def apply(self, document: dict[str, Any]) -> None:
        """Apply a pod, and watch it to its end."""
        arguments = start_arguments(Pod.model_validate(document), NODE, has_attributes=True)
        handle = await self.taken(
            lambda: self.stack.client.start_workflow(POD_WORKFLOW, {"pod": document}, **arguments)
        )
        pod = LivePod(document, self.stack.client.get_workflow_handle(handle.id))
        pod.watch = asyncio.create_task(self._watch(pod))
        self.pods.append(pod)
        self.log(f"apply {pod.name}")

    async def _delete(self, pod: LivePod) -> None:
        pod.deleting = True
        self.log(f"delete {pod.name}")
        with contextlib.suppress(RPCError):  # its watch reports how its workflow has ended
            await self.taken(lambda: pod.handle.signal("delete_pod", {}))

    async def taken(self, call: Callable[[], Awaitable[_T]], patience: float | None = PATIENCE) -> _T:
        """Retry a call until the server has accepted it, and return its result.

        Raises RPCError for an ended workflow, and TimeoutError after `patience` seconds; None = never.
        """
        async with asyncio.timeout(patience):
            while True:
                try:
                    return await call()
                except RPCError as error:
                    if error.status == RPCStatusCode.NOT_FOUND:
                        raise
                    await asyncio.sleep(0.3)

    async def _watch(self, pod: LivePod) -> PodRecord:
        """Wait for a pod's end, and return its record."""
        while True:
            try:
                shown = await pod.handle.result()
            except RPCError:
                await asyncio.sleep(0.5)
            except WorkflowFailureError:
                if pod.terminated:
                    return PodRecord(pod.document, terminated=True)
                described = await self.taken(pod.handle.describe, patience=None)
                if described.status != WorkflowExecutionStatus.RUNNING:
                    raise  # after a reset, another run follows
            else:
                record = await self._record(pod, shown)
                # If the server was down after a termination, this answer may be that of the next pod of the same name.
                taken_over = pod.terminated and not record.is_own
                return PodRecord(pod.document, terminated=True) if taken_over else record

    async def _record(self, pod: LivePod, shown: dict[str, Any]) -> PodRecord:
        history, events = [await self._asked(pod.handle, query) for query in ("history", "events")]
        runs = [self.stack.client.get_workflow_handle(pod.handle.id, run_id=each) for each in pod.resets]
        undone = tuple([await self._undone(run) for run in runs])
        return PodRecord(pod.document, shown, tuple(history), tuple(events), reset=bool(runs), undone=undone)

    async def _undone(self, run: WorkflowHandle[Any, Any]) -> tuple[dict[str, Any], ...]:
        """Return the history of a run that was reset; () if the run has unprocessed signals and cannot be queried."""
        try:
            return tuple(await self._asked(run, "history"))
        except WorkflowQueryFailedError:
            return ()

    async def _asked(self, handle: WorkflowHandle[Any, Any], query: str) -> Any:
        # There may be no worker for minutes, if each one is killed before it serves.
        return await self.taken(lambda: handle.query(query, rpc_timeout=_RPC), patience=None)

    # --- faults -------------------------------------------------------------------------------------------------------

    async def _break(self) -> None:
        """Cause one, two or three faults at once, again and again."""
        chance, under_way = self.chance["faults"], set[asyncio.Task[None]]()
        names, weights = list(FAULTS), [weight for weight, _ in FAULTS.values()]
        while not self.is_over:
            for name in chance.choices(names, weights, k=chance.choice((1, 1, 2, 3))):
                under_way.add(asyncio.create_task(FAULTS[name][1](self, self.chance[name]), name=name))
            await asyncio.sleep(chance.uniform(0.5, 8) * slowness())
        await asyncio.gather(*under_way)

    def count(self, fault: str, more: str = "") -> None:
        """Count a fault, and log it."""
        self.faults[fault] += 1
        self.log(f"{fault} {more}".strip())

    async def _keep(self) -> None:
        """Restart the worker whenever it has ended by itself, until cancelled."""
        while True:
            async with self.parts["worker"]:
                self.stack.keep_worker()
            await asyncio.sleep(0.5)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _at_rest(self) -> Verdict:
        """Wait until the output of `syncpod get` has agreed once with the notes of each pod.

        Logs the reasons for waiting whenever they change. At the deadline, judges each pod by its last read.
        """
        deadline, tries, told, rested = time.monotonic() + PATIENCE, 0, "", set[str]()
        while True:
            tries += 1
            try:
                looks = await self._look()
            except (RuntimeError, TimeoutError) as error:
                looks, wrong = [], [Violation("the pods are shown", "node", str(error) or "a pod does not answer")]
            else:
                rested |= {look.record.uid for look in looks if look.is_at_rest}
                looks = [look for look in looks if look.record.uid not in rested]
                wrong = restless(looks)
            if not wrong:
                return Verdict()
            if (awaited := "; ".join(map(str, wrong))) != told:
                self.log(f"not at rest: {awaited}")
                told = awaited
            if tries >= LOOKS and time.monotonic() > deadline:
                self.log(f"still not at rest after {PATIENCE:.0f} s and {tries} looks:")
                for look in looks:
                    self.log(look.record.summary)
                return Verdict(wrong)
            await asyncio.sleep(2)

    async def _look(self) -> list[Look]:
        """Read all live pods. Raises RuntimeError if `syncpod get` fails, TimeoutError if a pod does not answer."""
        before = notes.read(self.stack.out)
        shown = {pod["metadata"].get("uid", ""): pod for pod in await self._get_pods()}
        live = [pod for pod in self.live if pod.watch is not None and not pod.watch.done()]
        async with asyncio.timeout(PATIENCE):
            records = await asyncio.gather(
                *(self._record(pod, shown.get(pod.document["metadata"]["uid"], {})) for pod in live)
            )
        return look_at(records, before, notes.read(self.stack.out), self.killed)

    async def _get_pods(self) -> list[dict[str, Any]]:
        environment = os.environ | {
            "TEMPORAL_ADDRESS": self.stack.server.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "SYNCPOD_STATE_DIR": str(self.stack.directory / "state"),
        }
        command = [str(Path(sys.executable).with_name("syncpod")), "get", "pods", "-o", "json"]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
        )
        output, errors = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"`syncpod get pods -o json` exits with {process.returncode}: {errors.decode()}")
        listed: list[dict[str, Any]] = json.loads(output)["items"]
        return listed

    async def _end(self) -> list[Violation]:
        """Delete all remaining pods, and wait for the end of each pod."""
        for pod in self.live:
            await self._delete(pod)
        watches = {pod.watch: pod for pod in self.pods if pod.watch is not None}
        done, pending = await asyncio.wait(watches, timeout=PATIENCE)
        found = [Violation("every pod ends", watches[each].name, "it does not") for each in pending]
        for each in done:
            if (error := each.exception()) is not None:
                found.append(Violation("no workflow fails", watches[each].name, repr(error.__cause__ or error)))
                watches[each].watch = None
        return found

    async def _left(self) -> Sequence[str]:
        """Return the remains on the machine after the node has had time to clean up."""
        deadline = time.monotonic() + PATIENCE
        while (left := await self.stack.left()) and time.monotonic() < deadline:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(1)
        return left
