"""The judge of a chaos run reports wrong notes and wrong answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from qa.chaos import notes
from qa.chaos.checker import Verdict, check
from qa.chaos.record import PodRecord
from qa.chaos.rest import look_at, restless
from qa.chaos.run import Chaos, LivePod

WEB = "START 10 u1 web w0 s1 1 0 free"
WEB_ENDS = "END 20 u1 web w0 s1 1 0 7"
WEB_AGAIN = "START 30 u1 web w1 s1 1 1 free"
HOOK = "PRESTOP 40 u1 web w1 s1 9 1 -"
TERM = "TERM 50 u1 web w1 s1 1 1 -"
WEB_IS_ENDED = "END 60 u1 web w1 s1 1 1 0"
STORY = (WEB, WEB_ENDS, WEB_AGAIN, HOOK, TERM, WEB_IS_ENDED)
"""The notes of a container that exits with 7, is started again, and is then terminated."""

INIT = ("START 1 u1 one a0 s1 1 0 free", "END 5 u1 one a0 s1 1 0 0")


def ended(id_: str, code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"containerID": f"containerd://{id_}", "exitCode": code, "reason": reason}}


def exit_of(container: str, restart: int, how: str) -> dict[str, Any]:
    return {"kind": "exit", "subject": container, "restart": restart, "outcome": f"exited {how}"}


def pod(
    *exits: str, policy: str = "Always", inits: tuple[str, ...] = (), events: tuple[str, ...] = (), **status: Any
) -> PodRecord:
    """A pod `u1` with a container `web`, the exits in its history, and the container's status."""
    shown = {"name": "web", "restartCount": 1, "state": ended("w1", 0), "lastState": ended("w0", 7), **status}
    web = {"name": "web", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
    spec = {"restartPolicy": policy, "initContainers": [{"name": each} for each in inits], "containers": [web]}
    inits_shown = [{"name": each, "restartCount": 0} for each in inits]
    return PodRecord(
        {"metadata": {"name": "p", "uid": "u1"}, "spec": spec},
        {"metadata": {"uid": "u1"}, "status": {"containerStatuses": [shown], "initContainerStatuses": inits_shown}},
        tuple(exit_of("web", number, each) for number, each in enumerate(exits)),
        tuple({"reason": each, "container": "web", "count": 1} for each in events),
    )


def judged(record: PodRecord, *lines: str, killed: tuple[str, ...] = ()) -> Verdict:
    return check(notes.parse(lines), [record], killed)


def rules(verdict: Verdict) -> list[str]:
    return sorted({violation.rule for violation in verdict.violations})


def test_consistent_notes_and_answers_pass() -> None:
    verdict = judged(pod("7 (Error)", "0 (Completed)", inits=("one",)), *INIT, *STORY)
    assert verdict.violations == []
    assert (verdict.figures["exits true"], verdict.figures["preStop hooks run"]) == (2, 1)


@pytest.mark.parametrize(
    ("rule", "record", "lines"),
    [
        ("no overlap", pod(), (*STORY[:2], WEB_AGAIN.replace("free", "held"), *STORY[3:])),
        ("no overlap", pod(), (WEB, WEB_ENDS.replace("20", "35"), *STORY[2:])),
        ("Never at most once", pod(policy="Never"), STORY),
        ("nothing twice", pod(), (*STORY[:2], WEB_AGAIN.replace("1 1 free", "1 0 free"), *STORY[3:])),
        ("true counts", pod(restartCount=0), STORY),
        ("true counts", pod(restartCount=2), STORY),
        ("true exits", pod(lastState=ended("w0", 0)), STORY),
        ("true exits", pod(lastState=ended("w0", 137)), STORY),
        ("true exits", pod("1 (Error)", "0 (Completed)", lastState={}), STORY),
        ("true exits", pod(lastState=ended("w0", 7)), (WEB, *STORY[2:])),
        ("preStop", pod(), (*STORY[:3], TERM, WEB_IS_ENDED)),
        ("preStop", pod(), (*STORY[:3], HOOK.replace("40", "55"), TERM, WEB_IS_ENDED)),
        ("init order", pod(inits=("one",)), STORY),
        ("init order", pod(inits=("one",)), (INIT[0], INIT[1].replace(" 0 0", " 0 3"), *STORY)),
        ("init order", pod(inits=("one",)), (INIT[0], INIT[1].replace("END 5", "END 15"), *STORY)),
        ("init order", pod(inits=("one",)), (*(line.replace("s1", "s0") for line in INIT), *STORY)),
        ("init order", pod(inits=("one",)), (*INIT, "START 7 u1 one a1 s1 1 1 free", *STORY)),
        ("known pods", pod(), (*STORY, "START 10 u2 web x0 s1 1 0 free")),
    ],
)
def test_each_planted_inconsistency_is_found(rule: str, record: PodRecord, lines: tuple[str, ...]) -> None:
    assert rule in rules(judged(record, *lines))


def test_a_pod_that_is_shown_as_another_of_its_name_is_found_and_not_judged_by_that() -> None:
    record = pod("7 (Error)", "0 (Completed)", restartCount=5)
    other = PodRecord(record.document, {**record.shown, "metadata": {"uid": "u2"}}, record.history)
    assert rules(judged(other, *STORY)) == ["its own status"]


class Name:
    """A server's answers about a pod's name: first errors, since it is down, and then the end of the pod `u2`."""

    def __init__(self) -> None:
        self.outages = [RPCError("the server is down", RPCStatusCode.UNAVAILABLE, b"")]

    async def result(self) -> dict[str, Any]:
        if self.outages:
            raise self.outages.pop()
        return {"metadata": {"uid": "u2"}}

    async def query(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        return []


@pytest.mark.parametrize(("uid", "terminated", "shown"), [("u1", True, ""), ("u1", False, "u2"), ("u2", True, "u2")])
async def test_a_terminated_pod_is_not_judged_by_the_end_of_the_next_pod_of_its_name(
    uid: str, terminated: bool, shown: str
) -> None:
    """The server is killed just after the termination. When it answers again, the pod has been applied again."""
    document = {"metadata": {"name": "p", "uid": uid}}
    handle: Any = Name()
    no_node: Any = None
    record = await Chaos(no_node, seed=1, seconds=1)._watch(LivePod(document, handle, terminated=terminated))
    assert (record.document, record.shown_uid, record.terminated) == (document, shown, not shown)


def test_an_exit_reported_as_unknown_is_no_violation() -> None:
    record = pod("137 (ContainerStatusUnknown)", "0 (Completed)", lastState=ended("w0", 137, "ContainerStatusUnknown"))
    verdict = judged(record, *STORY)
    assert (verdict.violations, verdict.figures["exits said to be unknown"]) == ([], 1)


def test_an_instance_without_a_start_is_excused_if_nobody_knows_whether_it_ran() -> None:
    exits = ("7 (Error)", "0 (Completed)", "137 (ContainerStatusUnknown)")
    assert rules(judged(pod(*exits, restartCount=2), *STORY)) == []
    assert rules(judged(pod(*exits[:2], "1 (Error)", restartCount=2), *STORY)) == ["true counts"]


def test_an_instance_without_a_start_is_excused_by_the_run_that_was_reset() -> None:
    """The reset went back to before that instance, so no later run knows of it."""
    last, silent = pod("0 (Completed)"), (WEB_AGAIN, HOOK, TERM, WEB_IS_ENDED)
    assert rules(judged(last, *silent)) == ["true counts"]
    for exit_, found in (("137 (ContainerStatusUnknown)", []), ("7 (Error)", ["true counts"])):
        undone = pod(exit_, "0 (Completed)").history
        assert rules(judged(replace(last, undone=(undone,)), *silent)) == found


def test_an_instance_that_was_killed_before_it_could_note_its_start_is_excused() -> None:
    exits = ("7 (Error)", "0 (Completed)", "137 (Error)")
    assert rules(judged(pod(*exits, restartCount=2), *STORY)) == []
    # The one reported kill belongs to the instance that has noted no end.
    killed = pod(*exits, restartCount=2, state=ended("w1", 137))
    assert rules(judged(killed, *STORY[:-1])) == ["true counts"]


def test_an_instance_that_noted_its_end_may_still_have_been_killed() -> None:
    record = pod(lastState=ended("w0", 137))
    assert rules(judged(record, *STORY)) == ["true exits"]
    assert rules(judged(record, *STORY, killed=("w0",))) == []


def test_a_pod_that_changes_while_it_is_read_is_not_judged_yet() -> None:
    """Its first notes were read before, and it was restarted twice before its record was read."""
    before, after = notes.parse(STORY[:2]), notes.parse(STORY)
    (moving,) = look_at([pod("7 (Error)", "0 (Completed)")], before, after, ())
    assert (moving.is_at_rest, moving.violations) == (False, ())
    assert [each.rule for each in restless([moving])] == ["pods come to rest"]
    (still,) = look_at([pod("7 (Error)", "0 (Completed)")], after, after, ())
    assert still.is_at_rest and restless([still]) == []


def test_a_wrong_or_missing_status_of_a_pod_at_rest_is_reported() -> None:
    story = notes.parse(STORY)
    wrong, blind = look_at([pod(restartCount=0), PodRecord(pod().document)], story, story, ())
    assert {each.rule for each in wrong.violations} == {"true counts"}
    assert [each.rule for each in blind.violations] == ["the pods are shown"]
    assert "fails" not in wrong.record.summary and "web terminated 0 (Error), 0 restarts" in wrong.record.summary


def test_a_skipped_pre_stop_hook_must_have_an_event() -> None:
    record = pod(events=("FailedPreStopHook",))
    verdict = judged(record, *STORY[:3], TERM, WEB_IS_ENDED)
    assert (verdict.violations, verdict.figures["preStop hooks said not to have run"]) == ([], 1)


def test_only_the_containers_of_a_terminated_workflow_are_checked() -> None:
    record = pod(restartCount=5, lastState=ended("w0", 1))
    blind = PodRecord(record.document, terminated=True)
    assert rules(judged(blind, *STORY)) == []
    assert rules(judged(blind, *STORY, WEB_AGAIN.replace("START 30", "START 55").replace("w1", "w2"))) == ["no overlap"]


def test_an_init_container_that_ran_again_in_a_terminated_pod_is_counted_only() -> None:
    lines = (*INIT, "START 7 u1 one a1 s1 1 1 free", *STORY)
    verdict = judged(PodRecord(pod(inits=("one",)).document, terminated=True), *lines)
    assert verdict.violations == []
    assert verdict.figures["init containers run again in a terminated pod"] == 1


def test_an_end_is_that_of_the_instance_that_it_is_told_of_whatever_the_order() -> None:
    """After a reset, the first instance's end became known later than that of the second."""
    late = (exit_of("web", 1, "0 (Completed)"), exit_of("web", 0, "137 (ContainerStatusUnknown)"))
    verdict = judged(replace(pod(lastState={}), history=late, reset=True), *STORY)
    assert verdict.violations == []
    assert (verdict.figures["exits said to be unknown"], verdict.figures["exits true"]) == (1, 1)
    wrong = (exit_of("web", 1, "7 (Error)"), exit_of("web", 0, "0 (Completed)"))
    assert rules(judged(replace(pod(lastState={}), history=wrong, reset=True), *STORY)) == ["true exits"]
    known_later = (exit_of("web", 0, "137 (ContainerStatusUnknown)"), exit_of("web", 0, "1 (Error)"))
    assert rules(judged(replace(pod(lastState={}), history=known_later), *STORY)) == ["true exits"]


def run_again(**more: Any) -> PodRecord:
    """A pod whose init container `one` has restarted once."""
    record = pod(inits=("one",))
    record.shown["status"]["initContainerStatuses"][0]["restartCount"] = 1
    return replace(record, **more)


AGAIN = (*INIT, "START 7 u1 one a1 s1 1 1 free", "END 8 u1 one a1 s1 1 1 0", *STORY)


@pytest.mark.parametrize(("restart", "found"), [(0, []), (1, ["init order"])])
def test_an_init_container_may_run_again_only_if_the_end_before_is_told_to_be_unknown(
    restart: int, found: list[str]
) -> None:
    told = (exit_of("one", restart, "137 (ContainerStatusUnknown)"),)
    assert rules(judged(run_again(history=told), *AGAIN)) == found


def test_an_init_container_may_run_again_if_a_run_that_was_reset_told_that_its_end_was_unknown() -> None:
    """A report about another instance is no excuse, nor is the reset itself."""
    unknown, other = (exit_of("one", restart, "137 (ContainerStatusUnknown)") for restart in (0, 1))
    completed = exit_of("one", 0, "0 (Completed)")
    excused = judged(run_again(undone=((unknown,),)), *AGAIN)
    assert excused.violations == []
    assert excused.figures["init containers run again, as only a run says that was reset"] == 1
    for history, undone in (((), ()), ((), (completed, other)), ((completed,), (unknown,))):
        assert rules(judged(run_again(history=history, undone=(undone,)), *AGAIN)) == ["init order"]


def test_an_incomplete_line_is_left_for_the_next_read(tmp_path: Any) -> None:
    (tmp_path / "p.log").write_text(f"{WEB}\n{WEB_ENDS[:7]}")
    assert [note.what for note in notes.read(tmp_path)] == ["START"]
