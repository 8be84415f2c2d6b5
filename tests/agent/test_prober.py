"""The prober: which probes run, which results are signalled, and which survive a worker restart.

Holds: Only a changed probe result is signalled.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.probing import prober, worker
from syncpod.agent.probing.outbox import Outbox
from syncpod.agent.probing.prober import Prober
from syncpod.agent.probing.run_probe import run_probe, with_static_variables
from syncpod.agent.probing.schedule import Schedule
from syncpod.agent.probing.unreported import UnreportedFailures, with_unreported
from syncpod.agent.probing.worker import ProbeWorker, Report
from syncpod.cri import CriRuntime
from syncpod.handlers.answer import NoAnswer, ProbeAnswer
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.probing import ProbeState, failure_text, first_state, period_seconds
from syncpod.messages.identity import PodRef
from syncpod.messages.queries import write_events
from syncpod.messages.signals import ProbeChanged
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.start_marks import StartMark, write_start_mark
from syncpod.pod import Container, Probe, parse_pod
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import pod_directory
from tests.agent.waiting import until
from workflows.pod.state import PodState

UID = "5f0c2f2e-0000-4000-8000-000000000001"


@dataclass
class Asked:
    """Counts the probes' attempts."""

    times: int = 0

    async def again(self) -> None:
        """Wait until a probe that began after this call has ended, as the start of the next probe shows."""
        then = self.times
        await passing(lambda: self.times >= then + 2)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Count probes, and shorten each period to a twentieth."""
    asked = Asked()

    async def count_and_ask(*arguments: Any) -> ProbeAnswer:
        asked.times += 1
        return await run_probe(*arguments)

    monkeypatch.setattr(prober, "run_probe", count_and_ask)
    for module in (prober, worker):
        monkeypatch.setattr(module, "period_seconds", lambda probe: period_seconds(probe) / 20)
    return asked


@dataclass
class Door:
    """A port on loopback that a test opens and closes."""

    server: asyncio.Server | None = None
    port: int = 0

    async def open(self) -> None:
        self.server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self.server is not None
        self.server.close()
        await self.server.wait_closed()


@dataclass
class Node:
    """A prober whose signals are recorded, and that can lose its server."""

    context: NodeContext
    told: list[ProbeChanged] = field(default_factory=list)
    away: bool = False
    tries: int = 0
    unprobed: set[tuple[str, str]] = field(default_factory=set)

    def prober(self) -> Prober:
        # No probe here uses the runtime; exec probes are tested on real ones.
        cri, unprobed = cast(CriRuntime, None), self.unprobed
        return Prober(cri, self.context, self.send, host_ip=lambda: "127.0.0.1", unprobed=unprobed)

    async def send(self, ref: PodRef, change: ProbeChanged) -> bool:
        self.tries += 1
        if self.away:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        assert ref.uid == UID
        self.told.append(change)
        return True

    def results(self) -> list[tuple[str, str, str]]:
        return [(change.container_id, change.probe, change.result) for change in self.told]


def a_node(tmp_path: Path, **container: Any) -> Node:
    """A node with one pod, with one container."""
    context = NodeContext(name="n", state_dir=tmp_path, memory_dir=tmp_path, log_dir=tmp_path, cluster="")
    pod_directory(context, UID).mkdir(parents=True)
    web = {"name": "web", "image": "busybox:1", **container}
    metadata = {"name": "web", "namespace": "default", "uid": UID}
    pod = parse_pod({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [web]}})
    write_pod_record(context, PodRecord(pod=pod))
    return Node(context)


def listing(*ids: str, state: str = "running") -> ObservedPod:
    now = datetime.now(UTC)
    containers = tuple(
        ObservedContainer.model_validate({"id": id_, "name": "web", "state": state, "started_at": now}) for id_ in ids
    )
    sandbox = ObservedSandbox(id="s", state="SANDBOX_READY", ip="127.0.0.1")
    return ObservedPod(uid=UID, name="web", namespace="default", sandboxes=(sandbox,), containers=containers)


def tcp(port: int, **more: Any) -> dict[str, Any]:
    return {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 1, **more}


async def passing(condition: Callable[[], bool]) -> None:
    await until(condition)


async def test_a_container_whose_post_start_hook_was_cut_off_is_not_probed_before_it_has_run_again(
    tmp_path: Path,
) -> None:
    """The worker died within the hook: the next one lists the container before it has run the hook again."""
    door = Door()
    await door.open()
    lifecycle = {"postStart": {"exec": {"command": ["x"]}}}
    node = a_node(tmp_path, readinessProbe=tcp(door.port), lifecycle=lifecycle)
    at = datetime.now(UTC)
    mark = StartMark(id="a", restart=0, incarnation="", sandbox_id="s", at=at, hook_pending=True)
    write_start_mark(node.context, UID, "web", mark)
    now = time.time()
    prober = Prober(cast(CriRuntime, None), node.context, node.send, host_ip=lambda: "127.0.0.1", clock=lambda: now)
    prober.observe(listing("a"))
    assert prober._pods == {}
    now += 61  # no restart is possible: it is probed as by a kubelet
    prober.observe(listing("a"))
    assert set(prober._pods) == {UID}
    await prober.close()
    write_start_mark(node.context, UID, "web", mark.model_copy(update={"hook_pending": False}))
    prober = node.prober()
    prober.observe(listing("a"))
    await passing(lambda: ("a", "readiness", "success") in node.results())
    await prober.close()
    await door.close()


async def test_a_container_is_not_probed_while_its_post_start_hook_runs(tmp_path: Path) -> None:
    """Row 84: it runs, and does not count as started."""
    door = Door()
    await door.open()
    node = a_node(tmp_path, readinessProbe=tcp(door.port))
    prober = node.prober()
    node.unprobed.add((UID, "web"))
    prober.observe(listing("a"))
    assert prober._pods == {}, "nothing else would tell that no probe is asked"
    node.unprobed.clear()
    prober.observe(listing("a"))
    await passing(lambda: node.results() == [("a", "readiness", "success")])
    await prober.close()
    await door.close()


async def test_only_changed_probe_results_are_signalled(tmp_path: Path) -> None:
    """Row 90: a readiness result is signalled as soon as it changes, and only then."""
    door = Door()
    await door.open()
    node = a_node(tmp_path, readinessProbe=tcp(door.port))
    prober = node.prober()
    prober.observe(listing("c1"))
    await passing(lambda: node.results() == [("c1", "readiness", "success")])
    await door.close()
    await passing(lambda: node.results()[1:] == [("c1", "readiness", "failure")])
    # A question that came while the door closed is reset.
    assert node.told[1].message.endswith(("connection refused", "connection reset by peer"))
    await door.open()
    await passing(lambda: len(node.told) == 3)
    await prober.close()
    await door.close()
    assert node.tries == 3


async def test_a_container_that_is_never_ready_reports_the_reason_once(tmp_path: Path, asked: Asked) -> None:
    """Row 83: a container that has not been ready since its start counts as not ready, and the reason is signalled
    once."""
    node = a_node(tmp_path, readinessProbe=tcp(1))
    first = node.prober()
    first.observe(listing("c1"))
    await passing(lambda: node.results() == [("c1", "readiness", "failure")])
    assert "connection refused" in node.told[0].message
    await passing(lambda: not first._pods[UID].outbox)
    await first.close()
    second = node.prober()
    second.observe(listing("c1"))
    await asked.again()
    assert len(node.told) == 1, "what the last worker has told is not told again"
    await second.close()


async def test_liveness_and_readiness_wait_until_startup_has_succeeded(tmp_path: Path, asked: Asked) -> None:
    """Row 84: only the startup probe runs until it has succeeded; then the others start at once."""
    door, slow = Door(), Door()
    await door.open()
    await slow.open()
    await slow.close()
    node = a_node(
        tmp_path, startupProbe=tcp(slow.port, failureThreshold=100), readinessProbe=tcp(door.port), livenessProbe=tcp(1)
    )
    prober = node.prober()
    prober.observe(listing("c1"))
    await passing(lambda: node.results() == [("c1", "startup", "unknown")])
    assert (node.told[0].failures, "connection refused" in node.told[0].message) == (1, True)
    await asked.again()
    assert len(node.told) == 1
    node.told.clear()
    await slow.open()
    await passing(lambda: {result for _, _, result in node.results()} == {"success", "failure"})
    await passing(lambda: len(node.told) == 3)
    assert node.results()[0] == ("c1", "startup", "success")
    assert sorted(node.results()[1:]) == [("c1", "liveness", "failure"), ("c1", "readiness", "success")]
    await prober.close()
    await door.close()
    await slow.close()


async def test_a_new_instance_is_probed_and_the_old_one_no_longer(tmp_path: Path) -> None:
    """Row 86: a failed liveness probe is on hold until there is another instance."""
    node = a_node(tmp_path, livenessProbe=tcp(1))
    prober = node.prober()
    prober.observe(listing("c1"))
    await passing(lambda: node.results() == [("c1", "liveness", "failure")])
    prober.observe(listing("c2"))
    await passing(lambda: node.results()[1:] == [("c2", "liveness", "failure")])
    prober.observe(listing("c2", state="exited"))
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("liveness probe of web")]
    await prober.close()


async def test_a_probe_result_is_sent_until_accepted(tmp_path: Path) -> None:
    node = a_node(tmp_path, livenessProbe=tcp(1))
    node.away = True
    prober = node.prober()
    prober.observe(listing("c1"))
    await passing(lambda: node.tries >= 2)
    node.away = False
    await passing(lambda: node.results() == [("c1", "liveness", "failure")])
    await prober.close()


async def test_unsent_probe_results_of_an_ended_container_are_sent_and_then_dropped(tmp_path: Path) -> None:
    node = a_node(tmp_path, livenessProbe=tcp(1))
    node.away = True
    prober = node.prober()
    prober.observe(listing("c1"))
    await passing(lambda: node.tries >= 1)
    prober.observe(listing("c1", state="exited"))
    assert UID in prober._pods, "something is still to be told"
    node.away = False
    await passing(lambda: node.results() == [("c1", "liveness", "failure")])
    await passing(lambda: not prober._pods)
    await prober.close()


async def test_a_probe_that_cannot_run_is_counted_and_gives_no_result(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 85: a probe that cannot be run three times makes an event, and counts neither as success nor as failure."""
    monkeypatch.setattr(worker, "_ENDING_SECONDS", 0)
    node = a_node(tmp_path, livenessProbe=tcp(1) | {"tcpSocket": {"port": "nowhere"}})
    prober = node.prober()
    prober.observe(listing("c1"))
    await passing(lambda: node.results() == [("c1", "liveness", "unknown")])
    assert node.told[0].message == "couldn't find port: nowhere"
    await asked.again()
    await passing(lambda: bool(prober.unreported(UID)))
    [unreported] = prober.unreported(UID)
    assert unreported.message == "Liveness probe errored and resulted in unknown state: couldn't find port: nowhere"
    assert [change.errors for change in node.told] == [1]
    await passing(lambda: not prober._pods[UID].outbox)
    assert prober._pods[UID].results == {}, "the next worker begins where this one did"
    await prober.close()


async def test_an_unsent_probe_failure_is_not_replaced_by_a_warning(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    node.away = True
    outbox = Outbox(PodRef(uid=UID, name="web"), node.send, taken=lambda _: None, emptied=lambda: None)
    for result in ("failure", "unknown"):
        outbox.put(ProbeChanged.model_validate({"containerID": "c1", "probe": "readiness", "result": result}))
    await passing(lambda: node.tries >= 1)
    node.away = False
    await passing(lambda: not outbox)
    assert node.results() == [("c1", "readiness", "failure"), ("c1", "readiness", "unknown")]


async def test_a_probe_warning_is_sent_when_it_begins(tmp_path: Path, asked: Asked) -> None:
    """Row 87: a redirect to another host is a success with a warning, even if the result does not change."""
    moved = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        away = b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n"
        writer.write(away if moved.is_set() else b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        node = a_node(tmp_path, readinessProbe={"httpGet": {"port": port}, "periodSeconds": 1})
        prober = node.prober()
        prober.observe(listing("c1"))
        await passing(lambda: node.results() == [("c1", "readiness", "success")])
        moved.set()
        await passing(lambda: len(node.told) == 2)
        await asked.again()
        await prober.close()
    assert [(change.result, change.warning) for change in node.told] == [("success", False), ("success", True)]


async def test_only_readiness_probes_continue_while_a_pod_is_killed(tmp_path: Path, asked: Asked) -> None:
    """Row 91: liveness and startup probes stop when the pod ends; readiness probes continue until nothing runs."""
    door = Door()
    await door.open()
    node = a_node(tmp_path, livenessProbe=tcp(door.port), readinessProbe=tcp(door.port))
    prober = node.prober()
    prober.observe(listing("c1"))
    await passing(lambda: node.results() == [("c1", "readiness", "success")])
    prober.ending(UID)
    await door.close()
    await passing(lambda: node.results()[1:] == [("c1", "readiness", "failure")])
    await asked.again()
    assert len(node.told) == 2
    await prober.close()


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop that skips to the time of the next timer when nothing else is ready."""

    def __init__(self) -> None:
        selector = selectors.DefaultSelector()
        super().__init__(selector)
        self.now = 0.0
        ready = selector.select

        def select(timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            self.now += timeout or 0.0
            return ready(0)

        selector.select = select  # type: ignore[method-assign]

    def time(self) -> float:
        return self.now


def test_probes_that_start_together_are_spread_and_late_ones_keep_their_schedule() -> None:
    """Row 83: probes keep to a grid of periods from the first one; periods missed during a slow probe are skipped."""
    seen = list[float]()

    async def question(_: Probe) -> ProbeAnswer:
        seen.append(asyncio.get_running_loop().time())
        await asyncio.sleep(50 if len(seen) == 1 else 0)
        return ProbeAnswer("success")

    async def probing() -> None:
        schedule, probe = Schedule(), Probe(period_seconds=400)  # 20 s, a twentieth of it
        state = first_state("readiness")
        worker = ProbeWorker("a probe", state, probe, schedule, question, lambda *_: None, started=True)
        worker.begin(0)
        while len(seen) < 4:  # noqa: ASYNC110  # time passes by itself
            await asyncio.sleep(1)
        worker.end()
        schedule.close()

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(probing())
    assert seen == [0, 50, 60, 80]


class Told:
    """A probe worker that a test runs step by step, and its results."""

    def __init__(self, **probe: Any) -> None:
        self.reports: list[tuple[str, int, str]] = []
        self.errors: list[tuple[int, str]] = []
        self.says: ProbeAnswer | NoAnswer = ProbeAnswer("failure", "no")
        self.worker = ProbeWorker(
            "a probe", first_state("readiness"), Probe(**probe), Schedule(), self.ask, self.tell, started=True
        )

    async def ask(self, _: Probe) -> ProbeAnswer:
        if isinstance(self.says, NoAnswer):
            raise self.says
        return self.says

    def tell(self, _: ProbeState, report: Report) -> None:
        self.reports.append((report.result, report.failures.unreported, report.failures.text))
        if report.errors.unreported:
            self.errors.append((report.errors.unreported, report.answer.text))

    async def runs(self, times: int, answer: ProbeAnswer) -> None:
        self.says = answer
        for _ in range(times):
            await self.worker._run_once()


async def test_probe_failures_are_counted_locally_and_sent_at_the_1st_10th_and_100th() -> None:
    """Row 85: Unhealthy from the first failure, without a signal for each."""
    told = Told(failure_threshold=1000)
    await told.runs(123, ProbeAnswer("failure", "no"))
    assert told.reports == [("unknown", 1, "no"), ("unknown", 9, "no"), ("unknown", 90, "no")]
    told.worker.end()
    assert told.reports[3:] == [("unknown", 23, "no")]
    told.worker.end()
    assert len(told.reports) == 4


async def test_errors_of_a_probe_are_counted_locally_and_sent_at_the_1st_10th_and_100th(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Row 85: an event for each, as in the kubelet, without a signal for each."""
    monkeypatch.setattr(worker, "_ENDING_SECONDS", 0)
    told = Told()
    told.says = NoAnswer("cannot")
    for _ in range(123):
        await told.worker._run_once()
    assert told.errors == [(1, "cannot"), (9, "cannot"), (90, "cannot")]
    told.worker.end()
    told.worker.end()
    assert told.errors[3:] == [(23, "cannot")]
    assert {report[:2] for report in told.reports} == {("unknown", 0)}


async def test_probe_failures_are_sent_with_the_next_change_of_the_result() -> None:
    """Row 85: the count is not lost when a threshold is reached, or when the probe succeeds."""
    told = Told(failure_threshold=3)
    await told.runs(5, ProbeAnswer("failure", "no"))
    assert told.reports == [("unknown", 1, "no"), ("failure", 2, "no")]
    await told.runs(1, ProbeAnswer("success", "yes"))
    assert told.reports[2:] == [("success", 2, "no")]
    await told.runs(2, ProbeAnswer("failure", "again"))
    told.worker.end()
    assert told.reports[3:] == [("unknown", 2, "again")]


async def test_unsent_probe_failures_can_be_read(tmp_path: Path) -> None:
    """Row 85: readers of the pod get the exact count."""
    node = a_node(tmp_path, readinessProbe=tcp(1, failureThreshold=1000))
    prober = node.prober()
    assert prober.unreported(UID) == ()
    prober.observe(listing("c1"))
    await passing(lambda: len(node.told) == 1 and bool(prober.unreported(UID)))
    [unreported] = prober.unreported(UID)
    assert (unreported.container, unreported.failures) == ("web", 1)
    assert unreported.message.startswith("Readiness probe failed: dial tcp 127.0.0.1:1: ")
    before = {"type": "Warning", "reason": "Unhealthy", "message": unreported.message, "container": "web", "count": 1}
    before |= {"first": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:00:00Z"}
    other = {**before, "reason": "Started", "message": "Container started"}
    shown = with_unreported([before, other], [unreported, unreported._replace(container="other", failures=3)])
    assert [(each["reason"], each["container"], each["count"]) for each in shown] == [
        ("Started", "web", 1),
        ("Unhealthy", "web", 2),
        ("Unhealthy", "other", 3),
    ]
    assert shown[1]["first"] == before["first"] and shown[1]["last"] > before["last"]
    assert shown[1].keys() == before.keys() == shown[2].keys()
    await prober.close()


@pytest.mark.parametrize("text", ["\0" * 1000, "\U0001f600" * 1000, "x" * 1100], ids=["nul", "pictures", "long"])
def test_unsent_failures_are_counted_in_the_recorded_event_whatever_their_text(text: str) -> None:
    """The workflow cuts a text by its size as JSON."""
    now, state = datetime(2026, 1, 1, tzinfo=UTC), PodState()
    said = failure_text("liveness", text)
    state.event(now, "Warning", "Unhealthy", said, "web", times=10)
    later = UnreportedFailures("web", said, 14, now + timedelta(seconds=24))
    [shown] = with_unreported(write_events(state.events), [later])
    assert (shown["count"], shown["first"], shown["last"]) == (24, "2026-01-01T00:00:00Z", "2026-01-01T00:00:24Z")


async def test_a_probe_that_cannot_run_does_not_hide_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_ENDING_SECONDS", 0)
    told = Told(failure_threshold=3)
    await told.runs(2, ProbeAnswer("failure", "no"))
    told.says = NoAnswer("cannot")
    await told.worker._run_once()
    assert told.reports == [("unknown", 1, "no"), ("unknown", 0, "")]
    await told.runs(1, ProbeAnswer("failure", "no"))
    assert told.reports[2:] == [("failure", 2, "no")]


async def test_a_probe_command_expands_only_static_variables() -> None:
    """Row 88: $(NAME) in a probe's command is expanded from static variables only."""
    container = Container.model_validate({
        "name": "web",
        "image": "busybox:1",
        "env": [
            {"name": "PORT", "value": "80"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
    })  # fmt: skip
    probe = Probe.model_validate({"exec": {"command": ["nc", "$(IP)localhost", "$(PORT)", "$(WHAT)", "$$(PORT)"]}})
    expanded = with_static_variables(probe, container).exec
    assert expanded is not None
    assert expanded.command == ("nc", "localhost", "80", "$(WHAT)", "$(PORT)")


async def test_a_restarted_worker_continues_with_the_previous_probe_results(tmp_path: Path, asked: Asked) -> None:
    """Row 92: a container that had started and was ready stays so when the worker restarts."""
    door = Door()
    await door.open()
    node = a_node(tmp_path, startupProbe=tcp(door.port), readinessProbe=tcp(door.port))
    first = node.prober()
    first.observe(listing("c1"))
    await passing(lambda: len(node.told) == 2)
    await first.close()
    node.told.clear()
    second = node.prober()
    second.observe(listing("c1"))
    await asked.again()
    assert node.told == [], "it has started and is ready: nothing has changed"
    await door.close()
    await passing(lambda: node.results() == [("c1", "readiness", "failure")])
    await second.close()


async def test_a_pod_without_probes_has_no_task(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    prober = node.prober()
    before = len(asyncio.all_tasks())
    prober.observe(listing("c1"))
    assert len(asyncio.all_tasks()) == before
    await prober.close()


async def test_an_unreadable_record_gives_one_warning_and_is_read_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = a_node(tmp_path, readinessProbe=tcp(1))
    record = pod_directory(node.context, UID) / "pod.json"
    kept = record.rename(tmp_path / "kept")
    record.mkdir()
    prober = node.prober()
    for _ in range(3):
        prober.observe(listing("c1"))
    assert [each.getMessage() for each in caplog.records] == [
        f"pod default/web is not probed for now: [Errno 21] Is a directory: '{record}'"
    ]
    record.rmdir()
    kept.rename(record)
    prober.observe(listing("c1"))
    await passing(lambda: node.results() == [("c1", "readiness", "failure")])
    await prober.close()
