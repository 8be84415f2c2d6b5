"""Recorded exits decide: a container that the runtime no longer lists is not run again because of that.

Holds: A recorded end is never taken back.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from temporalio.client import Client

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox, Seq
from syncpod.lifecycle.plan import ENDED_FOR_GOOD
from syncpod.messages.signals import DeletePod
from syncpod.messages.steps import Outcome, StartContainer, StepInput, StepResult
from syncpod.node.start_marks import StartMark, as_ended
from syncpod.pod import Pod, admit_ephemeral_container, admit_pod, container_hash
from syncpod.pod.status import ContainerUser, LinuxContainerUser
from tests.lifecycle.worlds import World, worlds
from tests.workflows.scripted import ScriptedNode, container, phase, query_pod, start_pod, until
from workflows.pod import absorb, decide, desired, facts, report
from workflows.pod.observing import observe
from workflows.pod.state import RESTARTS_KEPT, PodState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CUT_OFF = "failed to create containerd task: failed to create shim task: context canceled: unknown"
SANDBOX = ObservedSandbox(id="s0", state="SANDBOX_READY", ip="10.0.0.1")


def a_pod(policy: str, *containers: str, init: Sequence[str] = ()) -> Pod:
    spec = {
        "restartPolicy": policy,
        "initContainers": [{"name": name, "image": "x:1"} for name in init],
        "containers": [{"name": name, "image": "x:1"} for name in containers],
    }
    meta = {"name": "web", "namespace": "default", "uid": "uid"}
    return admit_pod({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def exited(name: str, code: int = 0, restart: int = 0, sandbox: str = "s0") -> ObservedContainer:
    at = NOW + timedelta(minutes=restart)
    reason = "Completed" if code == 0 else "Error"
    return ObservedContainer(
        id=f"{name}-{restart}", name=name, sandbox_id=sandbox, state="exited", exit_code=code, reason=reason,
        hash=container_hash(name, "x:1"), restart_count=restart, created_at=at, started_at=at,
        finished_at=at + timedelta(seconds=1),
    )  # fmt: skip


def running(name: str, restart: int = 0) -> ObservedContainer:
    return exited(name, 0, restart).model_copy(update={"state": "running", "reason": "", "finished_at": None})


def listing(
    counter: int, *containers: ObservedContainer, sandboxes: Sequence[ObservedSandbox] = (SANDBOX,)
) -> ObservedPod:
    at = NOW + timedelta(hours=counter)
    pod = ObservedPod(seq=Seq(boot=1, counter=counter), uid="uid", observed_at=at)
    return pod.model_copy(update={"sandboxes": tuple(sandboxes), "containers": containers}).ordered()


def seen(pod: Pod, *listings: ObservedPod) -> PodState:
    """The state of a pod after these listings, in order."""
    state = PodState(pod=pod)
    for each in listings:
        observe(state, each, NOW)
        facts.record_lost(state, NOW)
    return state


def verbs(state: PodState) -> list[str]:
    return [f"{step.verb} {step.container}".rstrip() for step in decide.planned(state)]


def events(state: PodState, reason: str) -> list[str]:
    return [event.message for event in state.events if event.reason == reason]


# --- properties -------------------------------------------------------------------------------------------------------


def dated(world: World) -> ObservedPod:
    """The listing of a world, each instance with its times and in the newest sandbox."""
    view = world.observed
    sandbox = view.sandboxes[0].id if view.sandboxes else ""
    containers = []
    for each in view.containers:
        at = NOW + timedelta(minutes=each.restart_count)
        ended = {"finished_at": at + timedelta(seconds=1)} if each.state == "exited" else {}
        started = {} if each.state == "created" else {"started_at": at}
        times = {"created_at": at, "sandbox_id": sandbox, **started, **ended}
        containers.append(each.model_copy(update=times))
    return view.model_copy(update={"seq": Seq(boot=1, counter=1), "containers": tuple(containers)}).ordered()


def test_a_removed_container_keeps_what_its_status_shows_of_it() -> None:
    state, user = PodState(pod=a_pod("Never", "main")), ContainerUser(linux=LinuxContainerUser(uid=1000, gid=1000))
    shown = exited("main", 1).model_copy(
        update={"image": "x:1", "image_ref": "sha256:1", "stop_signal": "SIGTERM", "user": user}
    )
    observe(state, listing(1, shown), NOW)
    report.update_status(state, (), NOW)
    (before,) = state.status.container_statuses
    observe(state, listing(2), NOW)
    report.update_status(state, (), NOW)
    assert state.status.container_statuses == (before,)
    assert (before.stop_signal, before.user) == ("SIGTERM", user)


@given(worlds(), st.data())
def test_removing_a_dead_container_changes_no_decision(world: World, data: st.DataObject) -> None:
    whole = dated(world)
    assume(whole.sandboxes)  # a pod that has run had a sandbox; see the tests below
    alive = {c.name for c in whole.containers if c.state in ("running", "unknown")}  # those count as they are listed
    dead = [c for c in whole.containers if c.state == "exited" and c.name not in alive]
    gone = {c.id for c in dead if data.draw(st.booleans())}
    left = tuple(c for c in whole.containers if c.id not in gone)
    pruned = whole.model_copy(update={"seq": Seq(boot=1, counter=2), "containers": left})
    full, less = seen(world.pod, whole), seen(world.pod, whole, pruned)

    def steps(state: PodState) -> list[tuple[str, str]]:
        # A container that is already gone need not be removed.
        return [(each.verb, each.container) for each in decide.planned(state) if each.verb != "remove_container"]

    assert steps(less) == steps(full)


outcomes = st.sampled_from([0, 1, 42, 137])


@st.composite
def later_listings(draw: st.DrawFn, containers: Sequence[ObservedContainer]) -> ObservedPod:
    """Any listing of a pod that has run: all, some or none of it, with its sandbox ready, dead or gone."""
    kept = tuple(each for each in containers if draw(st.booleans()))
    dead = SANDBOX.model_copy(update={"state": "SANDBOX_NOTREADY", "ip": None})
    return listing(draw(st.integers(2, 5)), *kept, sandboxes=draw(st.sampled_from([(SANDBOX,), (dead,), ()])))


@given(outcomes, outcomes, st.booleans(), st.data())
def test_a_pod_that_never_restarts_never_runs_again(a: int, b: int, b_runs: bool, data: st.DataObject) -> None:
    pod = a_pod("Never", "a", "b")
    containers = [exited("a", a), running("b") if b_runs else exited("b", b)]
    after = data.draw(later_listings([exited("a", a), exited("b", b)]))
    state = seen(pod, listing(1, *containers), after)
    assert not any("start" in verb or "create" in verb for verb in verbs(state))


@given(outcomes, st.data())
def test_a_container_that_succeeded_under_on_failure_never_runs_again(b: int, data: st.DataObject) -> None:
    containers = [exited("a", 0), exited("b", b)]
    state = seen(a_pod("OnFailure", "a", "b"), listing(1, *containers), data.draw(later_listings(containers)))
    assert "start_container a" not in verbs(state)
    assert ("start_container b" in verbs(state)) == (b != 0)


@given(worlds(), st.data())
def test_the_listing_decides_for_instances_that_may_still_run(world: World, data: st.DataObject) -> None:
    whole = dated(world)
    left = tuple(c for c in whole.containers if c.state in ("running", "unknown") or data.draw(st.booleans()))
    state = seen(world.pod, whole, whole.model_copy(update={"seq": Seq(boot=1, counter=2), "containers": left}))
    alive = {each.name for each in left if each.state in ("running", "unknown")}
    added = {each.id for each in facts.effective_view(state).containers} - {each.id for each in left}
    assert not any(each.name in alive for each in facts.effective_view(state).containers if each.id in added)


@given(worlds())
def test_a_complete_listing_is_not_changed(world: World) -> None:
    state = seen(world.pod, dated(world))
    if state.own.sandboxes:
        assert facts.effective_view(state) == state.own


# --- init containers --------------------------------------------------------------------------------------------------


def test_a_pruned_finished_init_container_does_not_run_again() -> None:
    pod = a_pod("Always", "web", init=["first", "second"])
    done = [exited("first"), exited("second")]
    state = seen(pod, listing(1, *done, running("web")), listing(2, exited("web", 1)))
    assert verbs(state) == ["start_container web"]


def test_a_pod_that_never_restarts_is_not_begun_again_if_its_dead_sandbox_loses_its_init_container() -> None:
    """The kubelet ends such a pod while a container is listed, and begins it again once none is."""
    pod = a_pod("Never", "web", init=["first"])
    dead = SANDBOX.model_copy(update={"state": "SANDBOX_NOTREADY", "ip": None})
    state = seen(pod, listing(1, exited("first"), sandboxes=(dead,)))
    with_it = verbs(state)
    observe(state, listing(2, sandboxes=(dead,)), NOW)
    assert verbs(state) == with_it == ["kill_pod"]


def test_in_a_new_sandbox_init_containers_run_again() -> None:
    pod = a_pod("Always", "web", init=["first"])
    state = seen(pod, listing(1, exited("first"), running("web")), listing(2, sandboxes=()))
    assert verbs(state) == ["create_sandbox", "start_init_container first"]
    (create, _) = decide.planned(state)
    assert create.attempt == 1
    new = SANDBOX.model_copy(update={"id": "s1", "attempt": 1})
    observe(state, listing(3, sandboxes=(new,)), NOW)
    assert verbs(state) == ["start_init_container first"]


# --- what is lost -----------------------------------------------------------------------------------------------------


def test_a_vanished_container_has_an_unknown_exit() -> None:
    state = seen(a_pod("Always", "a", "b"), listing(1, running("a"), running("b")), listing(2, running("b")))
    (lost,) = state.exits
    assert (lost.id, lost.exit_code, lost.reason, lost.sandbox) == ("a-0", 137, "ContainerStatusUnknown", "s0")
    assert len(events(state, "ContainerStatusUnknown")) == 1
    assert (verbs(state), state.next_restart("a")) == (["start_container a"], 1)


def test_the_exit_of_a_vanished_container_is_recorded_once_known() -> None:
    state = seen(a_pod("Never", "a", "b"), listing(1, running("a"), running("b")), listing(2, running("b")))
    observe(state, listing(3, exited("a", 7), running("b")), NOW)
    (end,) = state.exits
    assert end.exit_code == 7


def test_a_recorded_exit_counts_at_once_and_across_runs() -> None:
    state = PodState(pod=a_pod("Never", "a", "b"))
    observe(state, listing(1, exited("a"), running("b")), NOW)
    observe(state, listing(2, running("b")), NOW)
    assert verbs(state) == []
    assert PodState.model_validate(state.model_dump(mode="json", exclude_defaults=True)) == state


def test_an_exit_unknown_to_the_runtime_is_an_event() -> None:
    unknown = exited("a", 255).model_copy(update={"reason": "Unknown"})
    state = seen(a_pod("Always", "a", "b"), listing(1, running("a"), exited("b", 255)), listing(2, unknown))
    (told,) = [event for event in state.events if event.reason == "ContainerStatusUnknown"]
    assert (told.type, told.container) == ("Warning", "a")


@pytest.mark.parametrize("reason", ["Unknown", "ContainerStatusUnknown"])
def test_an_unknown_exit_is_recorded_again_once_known(reason: str) -> None:
    """The kernel's exit code may arrive after the runtime's report that the process has ended."""
    unknown = exited("a", 255).model_copy(update={"reason": reason})
    state = seen(a_pod("Never", "a", "b"), listing(1, unknown, running("b")), listing(2, exited("a", 0), running("b")))
    (known,) = state.exits
    assert (known.exit_code, known.reason, events(state, "RuntimeDisagrees")) == (0, "Completed", [])
    assert verbs(state) == []


def state_lost(name: str, restart: int = 0) -> ObservedContainer:
    """An instance whose state the runtime does not know."""
    return running(name, restart).model_copy(update={"state": "unknown"})


def killed(state: PodState, *listings: ObservedPod) -> PodState:
    """Carry out the next step, a kill, which returns this listing."""
    step = decide.next_step(state, NOW).step
    assert step is not None
    decide.record_step(state, step, NOW)
    for each in listings:
        observe(state, each, each.observed_at or NOW)
    return state


def test_a_job_whose_state_the_runtime_has_lost_is_killed_and_never_runs_again() -> None:
    """It exits with 0 at SIGTERM, which does not show how its work would have ended."""
    state = seen(a_pod("Never", "a", "b"), listing(1, state_lost("a")))
    assert verbs(state) == ["kill_container a", "start_container b"]
    killed(state, listing(2, exited("a", 0)), listing(3, exited("a", 0), running("b")))
    assert verbs(state) == []
    (end,) = state.exits
    assert (end.exit_code, end.reason, end.is_settled) == (137, "ContainerStatusUnknown", True)
    assert (end.cause, end.message) == (ENDED_FOR_GOOD, f"{ENDED_FOR_GOOD}; it exited with 0 (Completed)")
    assert [each.exit_code for each in facts.effective_view(state).containers if each.name == "a"] == [137]
    assert [event.type for event in state.events if event.reason == "Exited"] == ["Warning"]


def test_an_init_container_whose_state_the_runtime_has_lost_fails_a_pod_that_never_restarts() -> None:
    state = seen(a_pod("Never", "a", init=["first"]), listing(1, state_lost("first")))
    assert verbs(state) == ["kill_pod"]
    killed(state, listing(2, exited("first", 0)))
    assert "start_container a" not in verbs(state)
    assert [(end.exit_code, end.is_settled) for end in state.exits] == [(137, True)]


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_a_container_whose_state_the_runtime_has_lost_is_killed_and_restarted(policy: str) -> None:
    state = seen(a_pod(policy, "a", "b"), listing(1, state_lost("a"), running("b")))
    assert verbs(state) == ["kill_container a", "start_container a"]
    killed(state, listing(2, exited("a", 0), running("b")))
    assert [(end.exit_code, end.is_settled) for end in state.exits] == [(0, False)]


def test_a_deleted_job_whose_state_the_runtime_has_lost_ends_as_the_runtime_says() -> None:
    state = seen(a_pod("Never", "a"), listing(1, state_lost("a")))
    desired.delete(state, DeletePod(grace_period_seconds=1), NOW)
    killed(state, listing(2, exited("a", 0)))
    assert [(end.exit_code, end.cause, end.is_settled) for end in state.exits] == [(0, "deleted", False)]


# --- what a start finds gone ------------------------------------------------------------------------------------------


def gone(pod: Pod, name: str, restart: int = 0, sandbox: str = "s0") -> ObservedContainer:
    """An instance that a start did not find, as the step returns it."""
    at = NOW + timedelta(minutes=restart)
    mark = StartMark(id=f"{name}-{restart}", restart=restart, incarnation="", sandbox_id=sandbox, at=at)
    every = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
    return as_ended(mark, next(each for each in every if each.name == name), None)


def with_sidecar(pod: Pod) -> Pod:
    (first, *others) = pod.spec.init_containers
    sidecar = first.model_copy(update={"restart_policy": "Always"})
    return pod.model_copy(update={"spec": pod.spec.model_copy(update={"init_containers": (sidecar, *others)})})


@pytest.mark.parametrize(
    ("policy", "follows"),
    [("Never", []), ("OnFailure", ["start_container a"]), ("Always", ["start_container a"])],
)
def test_an_instance_that_a_start_finds_missing_has_ended_even_if_listed_again(policy: str, follows: list[str]) -> None:
    pod = a_pod(policy, "a", "b")
    state = PodState(pod=pod)
    observe(state, listing(1, gone(pod, "a"), running("b")), NOW)
    for counter in (2, 3):
        (end,) = state.exits
        assert (end.id, end.exit_code, end.reason) == ("a-0", 137, "ContainerStatusUnknown")
        assert (verbs(state), state.next_restart("a")) == (follows, 1)
        observe(state, listing(counter, running("b")), NOW)
        facts.record_lost(state, NOW)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_an_init_container_that_a_start_finds_missing_has_failed(policy: str) -> None:
    pod = a_pod(policy, "web", init=["first"])
    for after in ([], [listing(2)]):
        state = seen(pod, listing(1, gone(pod, "first")), *after)
        report.update_status(state, (), NOW)
        assert state.reached == ("Failed" if policy == "Never" else "Pending")
        assert not any(verb.startswith("start_container") for verb in verbs(state))
        assert ("start_init_container first" in verbs(state)) == (policy != "Never")
        assert state.next_restart("first") == 1


def test_a_sidecar_that_a_start_finds_missing_is_started_with_the_next_number() -> None:
    pod = with_sidecar(a_pod("Never", "web", init=["proxy"]))
    for after in ([], [listing(2)]):
        state = seen(pod, listing(1, gone(pod, "proxy")), *after)
        assert "start_init_container proxy" in verbs(state)
        assert state.next_restart("proxy") == 1


def with_debugger(pod: Pod) -> Pod:
    """The pod with an ephemeral container."""
    debugger = admit_ephemeral_container(pod, {"name": "debug", "image": "x:1"})
    return pod.model_copy(update={"spec": pod.spec.model_copy(update={"ephemeral_containers": (debugger,)})})


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_an_ephemeral_container_that_a_start_finds_missing_is_not_started_again(policy: str) -> None:
    pod = with_debugger(a_pod(policy, "web"))
    for after in ([], [listing(2, running("web"))]):
        assert verbs(seen(pod, listing(1, gone(pod, "debug"), running("web")), *after)) == []


def test_a_missing_instance_is_reported_once_and_does_not_override_a_known_exit() -> None:
    pod = a_pod("Never", "a", "b")
    first = listing(1, gone(pod, "a"), running("b"))
    state = seen(pod, first, first)
    assert len([event for event in state.events if event.reason == "Exited" and event.count > 1]) == 0
    assert len([line for line in state.history if line.kind == "exit"]) == 1
    state = seen(pod, listing(1, exited("a"), running("b")), listing(2, gone(pod, "a"), running("b")))
    (end,) = state.exits
    assert (end.exit_code, events(state, "RuntimeDisagrees"), verbs(state)) == (0, [], [])


# --- starts that were cut off -----------------------------------------------------------------------------------------


def cut_off(name: str, restart: int = 0) -> ObservedContainer:
    """An instance whose start the runtime gave up before anything ran, because the calling worker was killed."""
    never = {"exit_code": 128, "reason": "StartError", "message": CUT_OFF, "started_at": None}
    return exited(name, restart=restart).model_copy(update=never)


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_a_start_that_was_cut_off_is_made_again_and_ends_no_pod(policy: str) -> None:
    state = seen(a_pod(policy, "a", "b"), listing(1, cut_off("a"), running("b")))
    report.update_status(state, (), NOW)
    a, _ = state.status.container_statuses
    assert (verbs(state), state.next_restart("a")) == (["start_container a"], 0)
    assert (a.state.terminated, a.restart_count) == (None, 0)
    state = seen(a_pod(policy, "a"), listing(1, cut_off("a")))
    report.update_status(state, (), NOW)
    assert (state.reached, state.ending) == ("Pending", False)


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_an_init_container_whose_start_was_cut_off_is_started_again(policy: str) -> None:
    state = seen(a_pod(policy, "web", init=["first"]), listing(1, cut_off("first")))
    report.update_status(state, (), NOW)
    assert (verbs(state), state.next_restart("first")) == (["start_init_container first"], 0)
    assert (state.reached, state.ending) == ("Pending", False)


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_an_ephemeral_container_whose_start_was_cut_off_is_started_again(policy: str) -> None:
    """The step is no longer running: it has failed, or the run that began it was replaced."""
    state = seen(with_debugger(a_pod(policy, "web")), listing(1, running("web"), cut_off("debug")))
    assert (verbs(state), state.next_restart("debug")) == (["start_ephemeral_container debug"], 0)


@pytest.mark.parametrize("begun", ["created", "cut off"])
def test_a_restart_that_never_began_is_counted_neither_before_nor_after_its_removal(begun: str) -> None:
    """A worker is killed within a start, and the pod is deleted before the next worker repeats the start."""
    created = exited("a", restart=1).model_copy(update={"state": "created", "started_at": None, "finished_at": None})
    half = created if begun == "created" else cut_off("a", 1)
    state = PodState(pod=a_pod("Always", "a"))
    for told in (listing(1, exited("a", 7)), listing(2, exited("a", 7), half), listing(3, half), listing(4)):
        observe(state, told, NOW)
        report.update_status(state, (), NOW)
        (a,) = state.status.container_statuses
        assert a.state.terminated is not None
        assert (a.state.terminated.exit_code, a.last_state.terminated, a.restart_count) == (7, None, 0)


# --- disagreements ----------------------------------------------------------------------------------------------------


def test_an_exit_code_that_contradicts_the_record_is_reported_once_and_ignored() -> None:
    pod = a_pod("OnFailure", "a", "b")
    wrong = exited("a", 255).model_copy(update={"reason": "Unknown"})
    state = seen(pod, listing(1, exited("a"), running("b")), *(listing(n, wrong, running("b")) for n in (2, 3)))
    (told,) = events(state, "RuntimeDisagrees")
    assert "exited with code 255" in told
    assert "0 (Completed), as recorded, counts" in told
    assert verbs(state) == []


def test_a_container_listed_running_after_its_recorded_exit_is_reported_once() -> None:
    pod = a_pod("Always", "a")
    state = seen(pod, listing(1, running("a")), listing(2), listing(3, running("a")), listing(4, running("a")))
    assert len(events(state, "RuntimeDisagrees")) == 1
    assert verbs(state) == []  # it runs: a second one must not


def test_a_second_instance_with_a_used_number_is_reported() -> None:
    again = running("a").model_copy(update={"id": "another"})
    state = seen(a_pod("Always", "a"), listing(1, exited("a", 1), running("a", 1)), listing(2, again, running("a", 1)))
    (told,) = events(state, "RuntimeDisagrees")
    assert "restart 0, has appeared" in told


def test_a_listing_begun_before_the_exit_is_not_reported_as_a_contradiction() -> None:
    state = seen(a_pod("Always", "a"), listing(1, running("a")))
    observe(state, listing(2, exited("a")), NOW)
    early = listing(3, running("a")).model_copy(update={"observed_at": NOW})
    observe(state, early, NOW)
    assert events(state, "RuntimeDisagrees") == []


# --- the workflow -----------------------------------------------------------------------------------------------------


def manifest(name: str, policy: str, *names: str, init: Sequence[str] = ()) -> dict[str, Any]:
    spec = {
        "restartPolicy": policy,
        "initContainers": [{"name": each, "image": "busybox:1"} for each in init],
        "containers": [{"name": each, "image": "busybox:1"} for each in names],
    }
    meta = {"name": f"{name}-{uuid.uuid4().hex[:6]}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def test_a_restart_never_pod_of_a_wiped_runtime_has_failed(client: Client, node: ScriptedNode) -> None:
    handle = await start_pod(client, node, manifest("run-once-wiped", "Never", "a", "b"))
    uid = (await until(handle, lambda pod: phase(pod) == "Running"))["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "a", 0))
    await until(handle, lambda pod: "terminated" in container(pod, "a").get("state", {}))
    await node.tell(handle, await node.loses(uid, sandboxes=True))
    pod = await until(handle, lambda pod: phase(pod) == "Failed")
    assert container(pod, "a")["state"]["terminated"]["exitCode"] == 0
    ended = container(pod, "b")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    await node.tell(handle, await node.list(uid), "Boot", "RuntimeReady")
    assert (await query_pod(handle))["status"]["phase"] == "Failed"
    started = [step for step in node.steps(uid) if step.startswith(("start", "create"))]
    assert started == ["create_sandbox", "start_container a", "start_container b"]


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
async def test_an_instance_that_a_start_finds_missing_is_not_started_again(
    client: Client, node: ScriptedNode, policy: str
) -> None:
    found: list[ObservedContainer] = []

    async def adopted(step: StepInput) -> StepResult:
        assert isinstance(step, StartContainer)
        found.append(gone(step.pod, "job").model_copy(update={"incarnation": step.ref.incarnation}))
        told = await node.list(step.ref.uid, containers=tuple(found))
        return StepResult(outcome=Outcome.ADOPTED, id=found[0].id, status=told)

    node.script["start_container"].append(adopted)
    handle = await start_pod(client, node, manifest("found-gone", policy, "job"))
    again = ["start_container job"] if policy == "OnFailure" else []
    if policy == "Never":
        pod = await until(handle, lambda pod: phase(pod) == "Failed")
        ended = container(pod, "job")["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    else:
        pod = await until(handle, lambda pod: container(pod, "job").get("restartCount") == 1)
        assert container(pod, "job")["lastState"]["terminated"]["exitCode"] == 137
    uid = pod["metadata"]["uid"]
    await node.tell(handle, await node.list(uid))
    await query_pod(handle)
    assert [step for step in node.steps(uid) if "start" in step] == ["start_container job", *again]


async def test_a_pruned_finished_container_stays_finished_and_the_others_continue(
    client: Client, node: ScriptedNode
) -> None:
    document = manifest("pruned", "OnFailure", "job", "web", init=["first"])
    handle = await start_pod(client, node, document, maxEvents=40)
    seen_pod = await until(handle, lambda pod: bool(container(pod, "first").get("state", {}).get("running")))
    uid = seen_pod["metadata"]["uid"]
    await node.tell(handle, await node.exits(uid, "first", 0))
    await until(handle, lambda pod: phase(pod) == "Running")
    await node.tell(handle, await node.exits(uid, "job", 0))
    await node.tell(handle, await node.exits(uid, "web", 1))
    await until(handle, lambda pod: container(pod, "web").get("restartCount") == 1)
    # The runtime loses all ended instances, and the running one ends unseen.
    await node.tell(handle, await node.loses(uid))
    # Its end counts for the back-off, although it was not observed.
    await until(
        handle, lambda pod: container(pod, "web")["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
    )
    await handle.signal("backoff_expired", {"container": "web"})
    pod = await until(handle, lambda pod: container(pod, "web").get("restartCount") == 2)
    last = container(pod, "web")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (137, "ContainerStatusUnknown")
    assert container(pod, "job")["state"]["terminated"]["exitCode"] == 0
    assert container(pod, "first")["state"]["terminated"]["exitCode"] == 0
    assert node.steps(uid).count("start_container job") == 1
    assert node.steps(uid).count("start_init_container first") == 1


# --- what was ended so that another follows ---------------------------------------------------------------------------


def decided(state: PodState, after: ObservedPod) -> list[str]:
    """What a run does after this listing; the pod must not have ended because of it."""
    observe(state, after, NOW)
    facts.record_lost(state, NOW)
    report.update_status(state, (), NOW)
    assert not state.ending
    return verbs(state)


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_a_pending_restart_happens_even_if_the_dead_instance_is_no_longer_listed(policy: str) -> None:
    """A probe, a new image or an operator ended it with code 0. It is pruned while it waits for its back-off."""
    state = PodState(pod=a_pod(policy, "web"))
    observe(state, listing(1, running("web")), NOW)
    state.replacing = {"web-0": False}
    observe(state, listing(2, exited("web")), NOW)
    assert decided(state, listing(3)) == ["start_container web"]


def test_an_operator_restarts_a_finished_container_that_is_no_longer_listed() -> None:
    state = PodState(pod=a_pod("OnFailure", "a", "b"))
    for each in (listing(1, running("a"), running("b")), listing(2, running("a"), exited("b"))):
        observe(state, each, NOW)
    assert decided(state, listing(3, running("a"))) == []
    absorb.absorb(state, "restart", ({"container": "b"},), NOW)
    assert decided(state, listing(4, running("a"))) == ["start_container b"]


def test_an_instance_that_only_an_older_listing_shows_as_ended_counts() -> None:
    """A kill reports an instance that its runtime has lost, and a newer listing came before the kill's result."""
    state = seen(a_pod("OnFailure", "a"), listing(1, exited("a", 3)), listing(5, exited("a", 3)))
    observe(state, listing(4, exited("a", 137, restart=1), exited("a", 3)), NOW)
    assert state.restarts == {"a": 1}
    assert [(each.restart, each.exit_code) for each in state.exits] == [(0, 3), (1, 137)]
    assert [each.id for each in state.observed.containers] == ["a-0"], "what exists is said by the newer listing"
    observe(state, listing(3, exited("a", 7, restart=1), running("a", restart=2)), NOW)
    assert [(each.restart, each.exit_code) for each in state.exits] == [(0, 3), (1, 137)], "what is known stays"


# --- what is learned late ---------------------------------------------------------------------------------------------


def test_an_older_instance_that_a_late_listing_shows_as_ended_is_recorded_before_its_successors() -> None:
    """A reset puts signals before a step's result, so a newer listing comes before the start that preceded it."""
    pod = a_pod("Always", "web", init=["first"])
    state = seen(pod, listing(5, exited("first", restart=1)), listing(2, gone(pod, "first")))
    assert [(each.restart, each.exit_code, each.is_unknown) for each in state.exits] == [(0, 137, True), (1, 0, False)]
    told = [(each.restart, each.outcome) for each in state.history if each.kind == "exit"]
    assert told == [(1, "exited 0 (Completed)"), (0, "exited 137 (ContainerStatusUnknown)")]
    observe(state, listing(3, gone(pod, "first")), NOW)
    assert len(state.history) == len(told), "what is known is told once"
    observe(state, listing(4, exited("first", 3)), NOW)
    assert [(each.restart, each.exit_code) for each in state.exits] == [(0, 3), (1, 0)], "now it is known how it ended"


@pytest.mark.parametrize("late", ["told by a step", "no longer listed"])
def test_an_end_that_is_learned_late_is_not_taken_for_that_of_the_newest_instance(late: str) -> None:
    """The init container's second run has completed. It must not run again once that run is no longer listed."""
    pod = a_pod("Always", "web", init=["first"])
    completed, web = exited("first", restart=1), running("web")
    if late == "told by a step":
        state = seen(pod, listing(5, completed, web), listing(2, gone(pod, "first")))
    else:
        state = seen(pod, listing(1, running("first")), listing(5, completed, web))
    assert [decided(state, listing(6, web)), decided(state, listing(7))] == [[], ["start_container web"]]
    assert [each.restart for each in state.exits if each.name == "first"] == [0, 1]


@given(st.permutations(range(5)), st.permutations(range(5)))
def test_exits_are_recorded_once_and_in_the_order_of_their_numbers_whatever_comes_late(
    arrives: list[int], taken: list[int]
) -> None:
    pod = a_pod("Always", "web")
    listings = [listing(1 + taken[restart], gone(pod, "web", restart)) for restart in arrives]
    state = seen(pod, *listings, *listings)
    assert [each.restart for each in state.exits] == [*range(5)]
    assert sorted(line.restart for line in state.history if line.kind == "exit") == [*range(5)]
    assert state.restarts == {"web": 4}


def test_an_exit_that_was_dropped_for_newer_ones_is_not_recorded_again() -> None:
    newest = RESTARTS_KEPT + 1
    state = seen(a_pod("Always", "web"), *(listing(each, exited("web", 1, each)) for each in range(newest + 1)))
    told = len([line for line in state.history if line.kind == "exit"])
    observe(state, listing(0, exited("web", 1, 0)), NOW)
    assert [each.restart for each in state.exits] == list(range(2, newest + 1))
    assert len([line for line in state.history if line.kind == "exit"]) == told
