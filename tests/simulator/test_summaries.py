"""The Temporal UI's texts of a crash loop, a failed start and a deletion: summaries, and the page of details."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.backoff import BackoffEntry, BackoffStore
from syncpod.lifecycle.container_status import WaitingReason
from syncpod.lifecycle.start_errors import START_ERROR
from syncpod.messages.steps import Fault, KillContainer, KillPod, KillTarget, StartContainer, StepInput
from syncpod.pod import LifecycleHandler
from tests.simulator.clock import moment
from tests.simulator.runtime import FOREVER, Life
from tests.simulator.test_search_attributes import begun, main
from workflows.pod import temporal_ui
from workflows.pod.decision import Hold, Step
from workflows.pod.search_attributes import printed
from workflows.summaries import LONGEST_SUMMARY

RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: "
    'exec: "/no/such/program": no such file or directory'
)


def hold(reason: str, message: str, seconds: float = 300.0, restart: int = 8) -> Hold:
    return Hold("a", restart, moment(seconds), timedelta(seconds=seconds), reason, message)


def test_a_crash_loop_of_forty_restarts_is_read_in_its_timers() -> None:
    simulation = begun({"containers": [main()]}, a=Life(1.0, 3))
    simulation.clock.run(41 * 310.0)
    workflow = simulation.server.workflow
    assert simulation.server.state.restarts["a"] >= 40
    due = hold("CrashLoopBackOff", "back-off 5m0s restarting failed container", restart=42)
    assert temporal_ui.timer_summary(workflow.state, [due], due.until) == "a exited 3 after 1s; restart 42 in 5m"
    page = temporal_ui.details(workflow.state, [due], "17@laptop")
    shown = printed(workflow.state)
    assert shown.word == "CrashLoopBackOff"
    assert page.startswith(f"**CrashLoopBackOff** · 0/1 ready · {shown.restarts} restarts · default/")
    assert " · phase Running · uid `" in page.splitlines()[0], "as kubectl's STATUS, and not the phase alone"
    assert f"\nWaits until {due.until:%H:%M:%S} UTC: a, CrashLoopBackOff." in page
    assert page.count(", exited 3 after 1s\n") == 5, page
    assert "|" not in page, "the UI sets the columns of a table without a gap"
    assert "\n- sent by 17@laptop\n" in page, "a run that follows another one has no static details"
    assert len(page) < 2_000


@pytest.mark.parametrize("message", [RUNC, f"{RUNC}: {'x' * 300}"])
def test_what_is_wrong_survives_the_cut(message: str) -> None:
    simulation = begun({"containers": [main()]}, a=FOREVER)
    simulation.clock.run(60.0)
    state = simulation.server.state
    due = hold(Fault.RUN_CONTAINER_ERROR.value, message)
    told = temporal_ui.timer_summary(state, [due], due.until)
    assert len(told) <= LONGEST_SUMMARY
    assert told.startswith("a: RunContainerError: ") and told.endswith(f"{message[-30:]}; again in 5m")


def test_a_step_tells_how_its_last_try_failed_and_keeps_a_hooks_output_to_itself() -> None:
    simulation = begun({"containers": [main()]}, a=FOREVER)
    simulation.clock.run(60.0)
    state = simulation.server.state
    step = Step(StepName.START_CONTAINER, StepInput(), "start a: first start", "first start", "a", "step/start/a")
    assert temporal_ui.step_summary(state, step) == "start a: first start"
    for reason, told in ((Fault.RUN_CONTAINER_ERROR, "no such file or directory"), (Fault.POST_START_HOOK_ERROR, "")):
        entry = BackoffEntry(delay=timedelta(seconds=10), reason=reason.value, message=RUNC)
        failed = state.model_copy(update={"backoff": BackoffStore(entries={step.key: entry})})
        summary = temporal_ui.step_summary(failed, step)
        assert summary.startswith("start a: first start; last try: ")
        assert len(f"start_container • {summary}") <= LONGEST_SUMMARY, "the UI cuts a longer row, at its end"
        assert summary.endswith(told or "PostStartHookError")


def test_a_failed_hook_is_named_where_its_instance_ended_and_is_started_again() -> None:
    simulation = begun({"containers": [main()]}, a=Life(1.0, 143))
    simulation.clock.run(60.0)
    why = WaitingReason(reason=Fault.POST_START_HOOK_ERROR.value, message="a secret")
    state = simulation.server.workflow.state.model_copy(update={"waiting": {"a": why}})
    due = hold("CrashLoopBackOff", "back-off 5m0s restarting failed container")
    assert temporal_ui.timer_summary(state, [due], due.until) == (
        "a was ended after 1s: its postStart hook failed; restart 8 in 5m"
    )
    start = StartContainer.model_construct(container="a")
    step = Step(
        StepName.START_CONTAINER, start, "start a, restart 8, after exit 143 (Error)", "exited 143 (Error)", "a"
    )
    assert temporal_ui.step_summary(state, step) == (
        "start a, restart 8, after exit 143 (Error); its postStart hook failed"
    )
    assert temporal_ui.details(state, [due], "").count("its postStart hook failed") == 1, "of the newest end alone"


def test_what_kept_a_container_from_starting_is_named() -> None:
    simulation = begun({"containers": [main()]}, a=Life(1.0, 128))
    simulation.clock.run(60.0)
    state = simulation.server.workflow.state
    last = state.last_exit("a")
    assert last is not None
    refused = replace(last, reason=START_ERROR, message=RUNC)
    exits = [refused if each == last else each for each in state.exits]
    due = hold("CrashLoopBackOff", "back-off 5m0s restarting failed container")
    assert temporal_ui.timer_summary(state.model_copy(update={"exits": exits}), [due], due.until) == (
        'a did not start: exec: "/no/such/program": no such file or directory; restart 8 in 5m'
    )


def test_a_deletion_tells_what_ends_and_what_is_lost() -> None:
    volumes = [{"name": "scratch", "emptyDir": {}}, {"name": "there", "hostPath": {"path": "/srv"}}]
    simulation = begun({"containers": [main()], "volumes": volumes}, a=FOREVER)
    simulation.clock.run(60.0)
    state = simulation.server.state
    kill = Step(
        StepName.KILL_POD, KillPod(targets=(KillTarget(id="1", name="a"),), final=True), "kill pod: deleted", "deleted"
    )
    assert temporal_ui.step_summary(state, kill) == "kill pod: deleted; ends a"
    hooked = KillTarget(id="1", name="a", pre_stop=LifecycleHandler())
    both = replace(kill, input=KillPod(targets=(hooked, KillTarget(id="2", name="b")), final=True))
    assert temporal_ui.step_summary(state, both) == "kill pod: deleted; ends a after its preStop, b"
    alone = Step(StepName.KILL_CONTAINER, KillContainer(target=hooked), "kill a: it failed", "it failed", "a")
    assert temporal_ui.step_summary(state, alone) == "kill a: it failed; its preStop comes first"
    deletion = replace(kill, input=kill.input.model_copy(update={"deleted": True}))
    assert temporal_ui.step_summary(state, deletion) == "kill pod: deleted; ends a; lost with it: emptyDir scratch"
    finished = replace(kill, input=KillPod(final=True, deleted=True))
    assert temporal_ui.step_summary(state, finished) == "kill pod: deleted; lost with it: emptyDir scratch"


@pytest.mark.parametrize(
    ("stop", "told"),
    [(0.1, "was ended after 10s: deleted"), (None, "was ended after 15s: deleted; killed after its grace period")],
)
def test_a_deletion_tells_which_container_did_not_end_when_it_was_asked_to(stop: float | None, told: str) -> None:
    spec = {"containers": [main(), {**main(), "name": "b"}], "terminationGracePeriodSeconds": 5}
    simulation = begun(spec, a=Life(None, stop=stop), b=FOREVER)
    simulation.clock.run(60.0)
    workflow = simulation.server.workflow
    simulation.server.signal("delete_pod", {})
    simulation.clock.run(60.0)
    state = workflow.state
    page = temporal_ui.details(state, [], "")
    assert f": **a**, restart 0, {told}\n" in f"{page}\n", page
    assert ": **b**, restart 0, was ended after 10s: deleted\n" in f"{page}\n", page
    (line,) = (each for each in state.history if each.kind == "exit" and each.subject == "a")
    assert f": {line.reason}" == told[told.index(": ") :]
    (event,) = (each for each in state.events if each.reason == "Exited" and each.container == "a")
    assert event.message.endswith(f": {line.reason}")
