"""kill_container and kill_pod end only the node's own containers, each in its turn and with its grace period.

Holds: A container that does not die is never forgotten.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.containers.lost_instances import end_what_was_lost
from activities.pods import stopping
from syncpod.cri.errors import RuntimeFailure
from syncpod.cri.port import SandboxSummary
from syncpod.lifecycle.actions import StepName
from syncpod.messages.steps import Fault, KillContainer, KillTarget, Outcome
from syncpod.pod import ExecAction, LifecycleHandler
from syncpod.translation.container_config import container_config
from syncpod.translation.sandbox_config import sandbox_config
from tests.activities.bench import DEAF, POLITE, Bench, PodOnBench, container, fault_of, until
from tests.activities.test_start_container import DONE_AND_GONE, created_by_another


class Calls:
    """Records the calls to the runtime, in order, when they are sent and when they return."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noted: list[tuple[str, str]] = []
        self.graces: list[int] = []
        for name in ("stop_container", "stop_pod_sandbox", "remove_container"):
            self._note(bench, monkeypatch, name)

    def _note(self, bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        real = getattr(bench.cri, name)

        async def noted(subject: str, **how: Any) -> None:
            self.noted.append((f"{name} sent", subject))
            self.graces.extend(how.values())
            await real(subject, **how)
            self.noted.append((f"{name} answered", subject))

        monkeypatch.setattr(bench.cri, name, noted)

    def place(self, call: str, subject: str) -> int:
        return self.noted.index((call, subject))

    def count(self, call: str) -> int:
        return sum(1 for name, _ in self.noted if name == call)


@pytest.fixture
def calls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(bench, monkeypatch)


async def started(pod: PodOnBench, *names: str) -> tuple[str, ...]:
    """Make the pod's sandbox, start these containers, and wait until each handles signals; return their ids."""
    if not pod.sandbox_id:
        await pod.create_sandbox()
    ids = []
    for name in names or ("main",):
        ids.append((await pod.start(name)).id)
        await pod.until_ready(name)
    return tuple(ids)


def killing(pod: PodOnBench, container_id: str, grace: int) -> KillContainer:
    target = KillTarget(id=container_id, name="main", grace_seconds=grace)
    return KillContainer(ref=pod.ref, fence=pod.next_fence(), target=target)


# --- kill_container ---------------------------------------------------------------------------------------------------


async def test_a_killed_container_gets_its_stop_signal_and_is_reported_as_exited(bench: Bench) -> None:
    pod = bench.pod()
    [main] = await started(pod)
    result = await pod.kill_container(main)
    assert (result.outcome, result.id) == (Outcome.DONE, main)
    assert [(each.state, each.exit_code) for each in result.status.containers] == [("exited", 3)]
    assert [(each.reason, each.message) for each in result.events] == [("Killing", "Stopping container main")]
    assert list(result.events) == bench.agent.happened, "a cluster is told when it begins"
    assert [each.ready for each in result.status.sandboxes] == [True]


async def test_a_sandbox_is_stopped_while_lost_processes_are_looked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, stop, asked = bench.pod(), bench.cri.stop_pod_sandbox, asyncio.Event()
    await started(pod)

    async def stopping_sandbox(sandbox_id: str) -> None:
        asked.set()
        await stop(sandbox_id)

    async def ended(*of: Any) -> None:
        async with asyncio.timeout(60):
            await asked.wait()
        await end_what_was_lost(*of)

    monkeypatch.setattr(bench.cri, "stop_pod_sandbox", stopping_sandbox)
    monkeypatch.setattr(stopping, "end_what_was_lost", ended)
    result = await pod.kill()
    assert [each.ready for each in result.status.sandboxes] == [False]


async def test_a_repeated_kill_succeeds(bench: Bench, calls: Calls) -> None:
    """Holds: Every step may run twice."""
    pod = bench.pod()
    [main] = await started(pod)
    await pod.kill_container(main)
    again = await pod.kill_container(main)
    assert (again.outcome, calls.count("stop_container sent")) == (Outcome.DONE, 1)


async def test_a_kill_says_whether_its_container_had_ended_before_it(bench: Bench) -> None:
    pod = bench.pod(container("main"), container("done", command=DONE_AND_GONE))
    await pod.create_sandbox()
    main, done = [(await pod.start(name)).id for name in ("main", "done")]
    await pod.until_ready("main")
    await pod.until_state(done, "exited")
    assert [(await pod.kill_container(each)).ended_before for each in (done, main)] == [True, False]


async def test_killing_a_missing_container_succeeds(bench: Bench) -> None:
    """Row 82: NotFound is success."""
    pod = bench.pod()
    await pod.create_sandbox()
    assert (await pod.kill_container("0" * 64)).outcome == Outcome.DONE


async def test_a_container_that_ignores_its_signal_is_killed_after_its_grace(bench: Bench) -> None:
    pod = bench.pod(container(command=DEAF))
    [main] = await started(pod)
    result = await pod.kill_container(main, grace=2)
    assert [each.exit_code for each in result.status.containers] == [137]


@pytest.mark.parametrize(("grace", "waited", "left"), [(30, 0.0, 30), (30, 25.0, 5), (30, 300.0, 2), (0, 0.0, 2)])
async def test_a_retried_kill_gets_the_rest_of_the_grace_and_at_least_two_seconds(
    bench: Bench, calls: Calls, grace: int, waited: float, left: int
) -> None:
    """Row 77, row 79: the rest of the grace period, but at least two seconds."""
    pod = bench.pod()
    [main] = await started(pod)
    await pod.step(StepName.KILL_CONTAINER, killing(pod, main, grace), attempt=2, waited=waited).result()
    assert calls.graces == [left]


async def test_a_cancelled_kill_ends_at_once_while_its_stop_call_completes(bench: Bench) -> None:
    """A StopContainer that is cut off in its grace would never send SIGKILL.

    Holds: A call to the runtime is never cut off.
    """
    pod = bench.pod(container(command=DEAF))
    [main] = await started(pod)
    step = pod.step(StepName.KILL_CONTAINER, killing(pod, main, 3))
    await until(lambda: is_stopping(bench, main))
    step.cancel()
    result = await step.result()
    assert (result.outcome, [each.state for each in result.status.containers]) == (Outcome.STOPPING, ["running"])
    await bench.drain()
    assert (await pod.listed(main)).exit_code == 137


async def is_stopping(bench: Bench, container_id: str, calls: int = 1) -> bool:
    """Whether this many StopContainer calls for the container are pending."""
    return [task.get_name() for task in asyncio.all_tasks()].count(f"StopContainer {container_id[:12]}") == calls


async def test_a_shorter_grace_sends_a_second_stop_beside_the_first(bench: Bench, calls: Calls) -> None:
    pod = bench.pod(container(command=DEAF))
    [main] = await started(pod)
    long = pod.step(StepName.KILL_CONTAINER, killing(pod, main, 600))
    await until(lambda: is_stopping(bench, main))
    long.cancel()
    assert (await long.result()).outcome == Outcome.STOPPING
    result = await pod.kill_container(main, grace=2)
    assert [(each.state, each.exit_code) for each in result.status.containers] == [("exited", 137)]
    assert calls.graces == [600, 2]
    await bench.drain()


async def test_a_retried_kill_joins_the_running_stop_call(bench: Bench, calls: Calls) -> None:
    pod = bench.pod(container(command=DEAF))
    [main] = await started(pod)
    request = killing(pod, main, 3)
    elder = pod.step(StepName.KILL_CONTAINER, request)
    await until(lambda: is_stopping(bench, main))
    retry = pod.step(StepName.KILL_CONTAINER, request, attempt=2)
    fault, _, _ = await fault_of(elder.result())
    assert fault == Fault.STALE_FENCE
    assert [each.exit_code for each in (await retry.result()).status.containers] == [137]
    assert calls.count("stop_container sent") == 1


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("timed_out", "the server received no heartbeat of the step in time"),
        ("not_found", "the server no longer waits for the step"),
    ],
)
async def test_a_step_abandoned_by_the_server_is_logged_in_one_sentence(
    bench: Bench, caplog: pytest.LogCaptureFixture, cause: str, said: str
) -> None:
    """A busy node has many of them; their tracebacks would hide important log lines."""
    pod = bench.pod(container(command=DEAF))
    [main] = await started(pod)
    step = pod.step(StepName.KILL_CONTAINER, killing(pod, main, 2))
    await until(lambda: is_stopping(bench, main))
    step.cancel(**{cause: True})
    with pytest.raises(ApplicationError, match=said):
        await step.result()
    (line,) = [record for record in caplog.records if "let go" in record.getMessage()]
    assert said in line.getMessage() and line.exc_info is None
    assert (await pod.kill_container(main, grace=2)).outcome == Outcome.DONE


async def test_a_kill_is_retried_after_a_worker_shutdown(bench: Bench) -> None:
    pod = bench.pod(container(command=DEAF))
    [main] = await started(pod)
    step = pod.step(StepName.KILL_CONTAINER, killing(pod, main, 2))
    await until(lambda: is_stopping(bench, main))
    step.cancel(worker_shutdown=True)
    with pytest.raises(ApplicationError, match="the step let go: the worker stops") as let_go:
        await step.result()
    assert not let_go.value.non_retryable and let_go.value.category == ApplicationErrorCategory.BENIGN
    assert (await pod.kill_container(main, grace=2)).outcome == Outcome.DONE


# --- kill_pod ---------------------------------------------------------------------------------------------------------


async def test_a_pod_is_killed_containers_first_and_then_its_sandbox(bench: Bench, calls: Calls) -> None:
    pod = bench.pod(container("a"), container("b"))
    ids = await started(pod, "a", "b")
    result = await pod.kill(*(KillTarget(id=each, name=name) for each, name in zip(ids, "ab", strict=True)))
    assert result.outcome == Outcome.DONE
    assert {each.state for each in result.status.containers} == {"exited"}
    assert [each.ready for each in result.status.sandboxes] == [False]
    assert [each.message for each in result.events] == ["Stopping container a", "Stopping container b"]
    stopped = calls.place("stop_pod_sandbox sent", pod.sandbox_id)
    assert all(calls.place("stop_container answered", each) < stopped for each in ids)


_ASKED = ["stop", "sandbox", "list"]


@pytest.mark.parametrize(
    ("hook", "expected"),
    [(None, _ASKED), (LifecycleHandler(exec=ExecAction(command=["/bin/true"])), ["list", "stop", "list", *_ASKED[1:]])],
)
async def test_a_pod_kill_begins_with_what_the_last_step_has_listed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, hook: LifecycleHandler | None, expected: list[str]
) -> None:
    """Not before a hook: that of a container which has ended meanwhile must not be carried out."""
    pod = bench.pod()
    [main] = await started(pod)
    asked: list[str] = []
    calls = {"list_containers": "list", "stop_container": "stop", "stop_pod_sandbox": "sandbox"}
    for name, word in calls.items():
        real = getattr(bench.cri, name)

        async def noted(*given: Any, real: Any = real, word: str = word, **how: Any) -> Any:
            asked.append(word)
            return await real(*given, **how)

        monkeypatch.setattr(bench.cri, name, noted)
    result = await pod.kill(KillTarget(id=main, name="main", pre_stop=hook))
    assert asked == expected
    assert [each.state for each in result.status.containers] == ["exited"]
    assert result.pre_stops == (("main",) if hook is not None else ())


async def test_a_pod_kill_gets_along_with_a_container_that_has_ended_and_gone_since(bench: Bench) -> None:
    pod = bench.pod()
    [main] = await started(pod)
    await bench.cri.stop_container(main, timeout_seconds=0)
    await bench.cri.remove_container(main)
    result = await pod.kill(KillTarget(id=main, name="main"))
    assert result.outcome == Outcome.DONE
    assert [each.ready for each in result.status.sandboxes] == [False]


async def test_a_repeated_pod_kill_succeeds(bench: Bench) -> None:
    """Holds: Every step may run twice."""
    pod = bench.pod()
    await started(pod)
    await pod.kill()
    assert (await pod.kill()).outcome == Outcome.DONE


async def test_killing_a_pod_without_sandbox_succeeds(bench: Bench) -> None:
    pod = bench.pod()
    result = await pod.kill()
    assert (result.outcome, result.status.sandboxes, result.status.containers) == (Outcome.DONE, (), ())


async def test_a_container_missing_in_the_request_gets_the_pods_grace(bench: Bench, calls: Calls) -> None:
    pod = bench.pod()
    await started(pod)
    await pod.kill(grace=7)
    assert calls.graces == [7]


async def test_a_sidecar_is_stopped_after_the_containers_it_serves(bench: Bench, calls: Calls) -> None:
    """Row 80: the order is kept."""
    pod = bench.pod(container("main"), container("sidecar"))
    main, sidecar = await started(pod, "main", "sidecar")
    await pod.kill(
        KillTarget(id=sidecar, name="sidecar", grace_seconds=20, after=(main,)),
        KillTarget(id=main, name="main", grace_seconds=20),
    )
    assert calls.place("stop_container answered", main) < calls.place("stop_container sent", sidecar)


async def test_a_sidecar_waits_no_longer_than_its_grace(bench: Bench, calls: Calls) -> None:
    """Row 80: its waiting is bounded by the grace."""
    pod = bench.pod(container("main", command=DEAF), container("sidecar"))
    main, sidecar = await started(pod, "main", "sidecar")
    await pod.kill(
        KillTarget(id=main, name="main", grace_seconds=4),
        KillTarget(id=sidecar, name="sidecar", grace_seconds=1, after=(main,)),
    )
    assert calls.place("stop_container sent", sidecar) < calls.place("stop_container answered", main)
    assert calls.graces == [4, 2]


async def test_created_containers_are_removed_because_a_stop_does_not_affect_them(bench: Bench) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    await created_by_another(pod)
    result = await pod.kill()
    assert (result.outcome, result.status.containers) == (Outcome.DONE, ())


async def test_a_failed_removal_does_not_keep_other_containers_from_being_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod(container("main"), container("other"))
    await pod.create_sandbox()
    await created_by_another(pod)
    other = (await pod.start("other")).id
    await pod.until_ready("other")

    async def refuse(container_id: str) -> None:
        raise RuntimeFailure("remove_container", "UNKNOWN", "the disk is read-only")

    monkeypatch.setattr(bench.cri, "remove_container", refuse)
    with pytest.raises(ApplicationError) as caught:
        await pod.kill()
    assert (caught.value.type, caught.value.non_retryable) == ("RuntimeFailure", False)
    assert (await pod.listed(other)).state == "exited"


async def test_a_pod_kill_waits_for_a_running_start_and_stops_its_container_with_grace(
    bench: Bench, calls: Calls
) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    starting = await created_by_another(pod)
    with bench.runtime.gates.hold("runc-start") as gate:
        start = asyncio.create_task(bench.cri.start_container(starting))
        await gate.reached()
        step = pod.step(StepName.KILL_POD, pod.kill_request())
        await step.goes_on("waits for main to stop")
        assert calls.count("stop_pod_sandbox sent") == 0
    await start
    result = await step.result()
    assert [(each.id, each.state) for each in result.status.containers] == [(starting, "exited")]
    assert calls.place("stop_container answered", starting) < calls.place("stop_pod_sandbox sent", pod.sandbox_id)


async def test_a_container_running_in_a_stopped_sandbox_is_stopped(bench: Bench, calls: Calls) -> None:
    """1.6 lets a start end well in a sandbox that was stopped meanwhile; in 2.4 such a start fails."""
    pod = bench.pod()
    await pod.create_sandbox()
    starting = await created_by_another(pod)
    with bench.runtime.gates.hold("runc-start") as gate:
        start = asyncio.create_task(bench.cri.start_container(starting))
        await gate.reached()
        sandbox_stop = asyncio.create_task(bench.cri.stop_pod_sandbox(pod.sandbox_id))
        if bench.runtime.series == "1.6":  # there the stop waits for the start
            await until(lambda: _has_been_sent(calls))
            await bench.cri.version()  # called on the same connection, after the stop
        else:
            await sandbox_stop
    await asyncio.gather(start, sandbox_stop, return_exceptions=True)
    result = await pod.kill()
    assert result.outcome == Outcome.DONE
    assert {each.state for each in result.status.containers} <= {"exited"}


async def _has_been_sent(calls: Calls) -> bool:
    return calls.count("stop_pod_sandbox sent") > 0


async def test_every_sandbox_of_the_pod_is_stopped(bench: Bench, calls: Calls) -> None:
    pod = bench.pod()
    ids = [(await pod.create_sandbox(attempt=attempt)).id for attempt in range(2)]
    result = await pod.kill()
    assert [each.ready for each in result.status.sandboxes] == [False, False]
    assert {subject for name, subject in calls.noted if name == "stop_pod_sandbox sent"} == set(ids)


async def test_a_sandbox_is_killed_only_when_it_is_listed_as_stopped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """containerd 2 sometimes answers the stop before it has noted the end."""
    pod = bench.pod()
    await pod.create_sandbox()
    stop, listing = bench.cri.stop_pod_sandbox, bench.cri.list_pod_sandboxes
    late: list[str] = []

    async def stop_and_be_late(sandbox_id: str) -> None:
        await stop(sandbox_id)
        late[:] = [sandbox_id] if not late else []

    async def listed_late(**how: Any) -> tuple[SandboxSummary, ...]:
        found = await listing(**how)
        return tuple(dataclasses.replace(each, state="SANDBOX_READY") if each.id in late else each for each in found)

    monkeypatch.setattr(bench.cri, "stop_pod_sandbox", stop_and_be_late)
    monkeypatch.setattr(bench.cri, "list_pod_sandboxes", listed_late)
    result = await pod.kill()
    assert [each.ready for each in result.status.sandboxes] == [False]


async def test_a_sandbox_that_is_listed_as_ready_for_a_moment_is_stopped_once(
    bench: Bench, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod()
    await pod.create_sandbox()
    listing, late = bench.cri.list_pod_sandboxes, iter(range(3))

    async def listed_late(**how: Any) -> tuple[SandboxSummary, ...]:
        found = await listing(**how)
        if not calls.count("stop_pod_sandbox answered"):
            return found
        is_late = next(late, None) is not None
        return tuple(dataclasses.replace(each, state="SANDBOX_READY") if is_late else each for each in found)

    monkeypatch.setattr(bench.cri, "list_pod_sandboxes", listed_late)
    result = await pod.kill()
    assert [each.ready for each in result.status.sandboxes] == [False]
    assert next(late, None) is None
    assert calls.count("stop_pod_sandbox sent") == 1


async def test_a_failed_network_teardown_is_retried_and_reported(bench: Bench) -> None:
    pod = bench.pod(hostNetwork=False)
    await started(pod)
    with bench.runtime.gates.refuse("cni-del"), pytest.raises(ApplicationError) as caught:
        await pod.kill()
    assert (caught.value.type, caught.value.non_retryable) == ("RuntimeFailure", False)
    assert "refused by the gate" in caught.value.message
    assert (await pod.kill()).outcome == Outcome.DONE


async def test_a_shorter_grace_for_a_pod_kill_ends_the_pod_sooner(bench: Bench, calls: Calls) -> None:
    pod = bench.pod(container("a", command=DEAF), container("b"))
    a, b = await started(pod, "a", "b")
    long = pod.step(StepName.KILL_POD, pod.kill_request(KillTarget(id=a, name="a", grace_seconds=600), grace=600))
    await until(lambda: is_stopping(bench, a))
    await pod.until_state(b, "exited")
    long.cancel()
    assert (await long.result()).outcome == Outcome.STOPPING
    result = await pod.kill(KillTarget(id=a, name="a", grace_seconds=2), grace=2)
    assert (result.outcome, {each.state for each in result.status.containers}) == (Outcome.DONE, {"exited"})
    await bench.drain()


async def test_a_hung_shim_delays_only_its_own_pod_and_the_kill_reports_it(bench: Bench) -> None:
    hung, well = bench.pod(), bench.pod()
    before = {each.pid for each in bench.runtime.shims}
    await started(hung)
    [shim] = [each.pid for each in bench.runtime.shims if each.pid not in before]
    await started(well)
    os.kill(shim, signal.SIGSTOP)
    try:
        step = hung.step(StepName.KILL_POD, hung.kill_request(grace=2))
        assert (await well.kill()).outcome == Outcome.DONE

        async def has_said_what_it_waits_for() -> bool:
            return step.task.done() or "waits for main to stop (at most 2 s)" in step.heartbeats

        await until(has_said_what_it_waits_for)
    finally:
        os.kill(shim, signal.SIGCONT)
    if step.task.done() and step.task.exception():  # 2.4 gives such a stop up itself; Temporal tries again
        assert isinstance(step.task.exception(), ApplicationError)
        assert (await hung.kill()).outcome == Outcome.DONE
    else:
        assert (await step.result()).outcome == Outcome.DONE


async def test_a_foreign_container_is_not_killed_even_if_requested_by_id(bench: Bench) -> None:
    """Holds: Only sandboxes and containers with our label are touched."""
    pod, other = bench.pod(), bench.pod(container("theirs", command=POLITE))
    await started(pod)
    context = bench.node.context
    sandbox = sandbox_config(other.pod, attempt=0, node=context, incarnation="x")
    config = container_config(
        other.pod,
        other.pod.spec.containers[0],
        kind="container",
        restart_count=0,
        observed_image=None,
        pod_ips=(),
        node=context,
        incarnation="x",
        variables={},
    )
    config.ClearField("mounts")
    sandbox.linux.cgroup_parent = f"{bench.runtime.cgroup_parent}/theirs"
    del sandbox.labels["syncpod.dev/node"], config.labels["syncpod.dev/node"]
    sandbox_id = await bench.cri.run_pod_sandbox(sandbox)
    theirs = await bench.cri.create_container(sandbox_id, config, sandbox)
    await bench.cri.start_container(theirs)
    await pod.kill(KillTarget(id=theirs, name="theirs"))
    await other.kill(KillTarget(id=theirs, name="theirs"))
    await other.kill_container(theirs)
    await other.remove_containers(theirs, kill=(theirs,))
    await other.remove()
    assert (await bench.cri.container_status(theirs)).container.state == "running"
    assert (await bench.cri.pod_sandbox_status(sandbox_id)).state == "SANDBOX_READY"


# --- what takes too long ----------------------------------------------------------------------------------------------


async def test_a_hung_stop_is_reported_as_overdue_and_sent_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 18: ExceededGracePeriod, for any kill."""
    monkeypatch.setattr("activities.containers.kill_timeout.LEAST_SECONDS", 2.0)
    monkeypatch.setattr("activities.node.stops.HUNG_SECONDS", 0.0)
    pod = bench.pod(container("web"))
    [web] = await started(pod, "web")
    hang, real, sent = asyncio.Event(), bench.cri.stop_container, 0

    async def hanging(container_id: str, **how: Any) -> None:
        nonlocal sent
        sent += 1
        if sent == 1:
            await hang.wait()
        else:
            await real(container_id, **how)

    monkeypatch.setattr(bench.cri, "stop_container", hanging)
    target = KillTarget(id=web, name="web", grace_seconds=0)
    fault, error, detail = await fault_of(pod.kill(target, grace=0))
    assert fault == Fault.EXCEEDED_GRACE_PERIOD
    assert "web did not end within " in str(error)
    assert [(each.type, each.reason, each.message) for each in detail.events][-1] == (
        "Warning",
        "ExceededGracePeriod",
        "Container runtime did not kill the pod within specified grace period.",
    )
    assert [each.state for each in detail.status.containers] == ["running"]
    monkeypatch.setattr("activities.containers.kill_timeout.LEAST_SECONDS", 60.0)
    # The first may still do it within StopContainer's least grace of two seconds: that counts as over.
    monkeypatch.setattr("activities.node.stops.HUNG_SECONDS", -2.1)
    assert (await pod.kill(target, grace=0)).outcome == Outcome.DONE
    assert sent == 2
    hang.set()
    await bench.drain()


async def test_a_refused_stop_is_reported_once_the_kill_is_overdue(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench.pod(container("web"))
    [web] = await started(pod, "web")
    real = bench.cri.stop_container

    async def refusing(container_id: str, **_: Any) -> None:
        raise RuntimeFailure("StopContainer", "UNKNOWN", "no such luck")

    monkeypatch.setattr(bench.cri, "stop_container", refusing)
    request = KillContainer(ref=pod.ref, fence=pod.next_fence(), target=KillTarget(id=web, name="web", grace_seconds=1))
    with pytest.raises(ApplicationError, match="no such luck") as early:
        await pod.step(StepName.KILL_CONTAINER, request).result()
    assert not early.value.non_retryable, "Temporal asks again at first"
    late = request.model_copy(update={"fence": pod.next_fence()})
    fault, _, detail = await fault_of(pod.step(StepName.KILL_CONTAINER, late, attempt=5, waited=20.0).result())
    assert fault == Fault.FAILED_KILL_POD
    assert detail.events[-1].reason == "FailedKillPod"
    assert "no such luck" in detail.events[-1].message
    monkeypatch.setattr(bench.cri, "stop_container", real)
