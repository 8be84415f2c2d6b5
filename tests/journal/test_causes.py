"""The cause of an instance's end in words, and who decided it.

Holds: `explain` decides nothing by words.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from syncpod.journal.causes import FOREIGN_SIGNAL, Cause, OutsideChange, cause_of, changes_of, ends_of
from syncpod.journal.records import RESTART_OF_ALL, Fact, HistoryEntry, Instance
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.messages.steps import Outcome
from tests.journal.records import at, ended, event, exit_line

LIVENESS = "Container app failed liveness probe, will be restarted"


@pytest.mark.parametrize(
    ("instance", "cause"),
    [
        (ended(), Cause("exit 3", "exited 3", "itself")),
        (ended(exit_code=0, reason="Completed"), Cause("exit 0", "finished (exit 0)", "itself")),
        (ended(exit_code=139), Cause("signal", "exited 139 (128+SIGSEGV)", FOREIGN_SIGNAL)),
        (
            ended(exit_code=137),
            Cause(
                "signal",
                "exited 137 (128+SIGKILL), with no report that memory ran out",
                "a signal that the node did not send, or itself",
            ),
        ),
        (ended(exit_code=191), Cause("signal", "exited 191 (128+signal 63)", FOREIGN_SIGNAL)),
        (ended(exit_code=200), Cause("exit 200", "exited 200", "itself")),
        (
            ended(exit_code=137, reason="OOMKilled"),
            Cause("oom", "out of memory at its limit of 64Mi", "the kernel"),
        ),
        (
            ended(reason="OOMKilled"),
            Cause("oom within", "exited 3 after a process in it ran out of memory at its limit of 64Mi", "itself"),
        ),
        (
            ended(
                exit_code=128,
                reason="StartError",
                message='failed to create task: OCI runtime create failed: exec: "/no/such":\n no such file',
            ),
            Cause("start", 'could not be started: exec: "/no/such": no such file', "the runtime"),
        ),
        (
            ended(exit_code=137, reason="ContainerStatusUnknown"),
            Cause("unknown", "its exit was not observed", "unknown"),
        ),
        (
            ended(exit_code=137, reason="ContainerStatusUnknown", message="The runtime gave up\nthe start"),
            Cause("unknown", "its exit was not observed: The runtime gave up the start", "unknown"),
        ),
        (ended(message="cannot open\nconfig"), Cause("exit 3", "exited 3: cannot open config", "itself")),
        (ended(message="last\nlines\n", log_end="the last\nlines\n"), Cause("exit 3", "exited 3", "itself")),
        (ended(exit_code=255, reason="Unknown"), Cause("unknown", "its exit was not observed", "unknown")),
        (
            ended(cause="an operator restarts it", killed_by=KillCause.OPERATOR),
            Cause("operator", "restarted by an operator", "an operator"),
        ),
        (
            ended(cause="Container app definition changed, will be restarted", killed_by=KillCause.UPDATE),
            Cause("update", "its definition was changed", "an update of the pod"),
        ),
        (
            ended(cause="the sandbox is no longer ready", killed_by=KillCause.SANDBOX),
            Cause("sandbox", "the sandbox is no longer ready", "the node: its sandbox was lost"),
        ),
        (
            ended(cause="a restart rule asks for all containers to be restarted", killed_by=KillCause.RULE),
            Cause("rule", "a restart rule asks for all containers to be restarted", "a restart rule"),
        ),
        (
            ended(cause="the sandbox is no longer ready", killed_by=KillCause.SANDBOX, reason="OOMKilled"),
            Cause(
                "sandbox",
                "the sandbox is no longer ready; a process ran out of memory",
                "the node: its sandbox was lost",
            ),
        ),
        (ended(cause="deleted", killed_by=KillCause.DELETED), Cause("deleted", "the pod was deleted", "its deletion")),
        (
            ended(exit_code=137, cause="deleted", killed_by=KillCause.DELETED),
            Cause("deleted", "the pod was deleted; killed after its grace period", "its deletion"),
        ),
        (ended(cause="something", killed_by="of a newer worker"), Cause("of a newer worker", "something", "the node")),
    ],
)
def test_each_end_has_a_cause_and_somebody_who_decided(instance: Instance, cause: Cause) -> None:
    assert cause_of(instance, (), "64Mi") == cause


def test_a_failed_probe_comes_with_what_it_said_last_before_the_end() -> None:
    seen = [
        event(1, reason="Unhealthy", message="Liveness probe failed: first\n", last=at(2)),
        event(3, reason="Unhealthy", message="Liveness probe failed: second\nline", last=at(50)),
        event(3, reason="Unhealthy", message="Readiness probe failed: other"),
        event(20, reason="Unhealthy", message="Liveness probe failed: later"),
    ]
    one = ended(begun=2, end=4, cause=LIVENESS, killed_by=KillCause.LIVENESS)
    assert cause_of(one, seen).words == "liveness probe failed: second line"
    killed = ended(begun=2, end=4, cause=LIVENESS, killed_by=KillCause.LIVENESS, exit_code=137)
    assert cause_of(killed, seen).words == "liveness probe failed: second line; killed after its grace period"
    assert cause_of(ended(begun=60, end=61, cause=LIVENESS, killed_by=KillCause.LIVENESS), seen) == (
        "liveness",
        "liveness probe failed",
        "the liveness probe",
    )
    assert (
        cause_of(ended(cause="Container app failed startup probe", killed_by=KillCause.STARTUP), seen).by
        == "the startup probe"
    )


@pytest.mark.parametrize("words", ["", "deleted", "sandbox", "failed liveness probe", "reworded"])
@pytest.mark.parametrize("cause", KillCause)
def test_the_words_of_a_kill_do_not_change_what_it_counts_as(cause: KillCause, words: str) -> None:
    told = cause_of(ended(cause=words, killed_by=cause))
    assert (told.kind, told.by) == (cause, cause_of(ended(cause="other", killed_by=cause)).by)
    assert cause_of(ended(cause=words)).kind == "exit 3", "words alone do not make a kill"


def test_a_probe_that_said_nothing_leaves_no_empty_clause() -> None:
    silent = [event(3, reason="Unhealthy", message="Liveness probe failed: ", last=at(50))]
    one = ended(begun=2, end=4, cause=LIVENESS, killed_by=KillCause.LIVENESS, exit_code=137)
    assert cause_of(one, silent).words == "liveness probe failed; killed after its grace period"


def test_each_end_says_how_long_the_next_start_waited_and_for_which_back_off() -> None:
    instances = [ended(1, begun=20, end=21), ended(0, begun=0, end=1), ended(2, begun=61, end=70), Instance("app", 3)]
    holds = [
        HistoryEntry(at(1.1), "hold", "other", reason="CrashLoopBackOff 99s: x", fact="CrashLoopBackOff", seconds=99),
        HistoryEntry(at(21.1), "hold", "app", reason="CrashLoopBackOff 40s: x", fact="CrashLoopBackOff", seconds=40),
        HistoryEntry(at(70.1), "hold", "app", reason="RestartLimitReached: x", fact="RestartLimitReached"),
    ]
    ends = ends_of(instances, holds, [])["app"]
    assert [(end.instance.restart, end.back_off) for end in ends] == [(0, ""), (1, "40s"), (2, "")]
    assert [end.waited for end in ends] == [timedelta(seconds=19), timedelta(seconds=40), None]


def test_a_back_off_belongs_to_the_end_before_it_though_no_start_succeeds() -> None:
    failed = [ended(each, end=each * 10, exit_code=128, reason="StartError") for each in (0, 1, 2)]
    instances = [replace(each, started_at=None) for each in failed]
    holds = [HistoryEntry(at(each * 10 + 0.1), "hold", "app", fact=Fact.CRASH_LOOP, seconds=each) for each in (1, 2)]
    ends = ends_of(instances, holds, [])["app"]
    assert [end.back_off for end in ends] == ["", "1s", "2s"]
    assert [end.waited for end in ends] == [timedelta(seconds=10), timedelta(seconds=10), None], "until the next try"


def test_a_wait_that_an_operator_cut_short_is_said_to_be() -> None:
    instances = [ended(0, begun=0, end=1), ended(1, begun=11, end=12), ended(2, begun=20, end=21)]
    instances += [ended(3, begun=25, end=30), ended(4, begun=31, end=32)]
    lines = [
        HistoryEntry(
            at(10), "signal", "backoff_expired", "application", reason="an operator", fact=Fact.BACK_OFF_ENDED
        ),
        HistoryEntry(at(19), "signal", "backoff_expired", "app", reason="an operator", fact=Fact.BACK_OFF_ENDED),
        HistoryEntry(at(12.5), "signal", "restart", "other", reason="an operator restarts other", fact=Fact.ASKED),
        HistoryEntry(at(21), "hold", "app", reason="CrashLoopBackOff 20s: x", fact="CrashLoopBackOff", seconds=20),
        HistoryEntry(at(24), "signal", "restart", "app", reason="an operator restarts app", fact=Fact.ASKED),
        HistoryEntry(at(30), "hold", "app", reason="CrashLoopBackOff 40s: x", fact="CrashLoopBackOff", seconds=40),
        HistoryEntry(at(31.2), "signal", "restart", "app", reason="an operator restarts app", fact=Fact.ASKED),
        HistoryEntry(at(22), "signal", "backoff_expired", "app", reason="its secret has come or changed"),
    ]
    assert [end.cut_short for end in ends_of(instances, lines, [])["app"]] == [False, True, True, False, False]


@pytest.mark.parametrize("line", [("backoff_expired", ""), ("backoff_expired", "app"), ("restart", "app")])
def test_whoever_ends_the_back_off_of_a_restart_of_all_cuts_the_wait_of_each_container_short(
    line: tuple[str, str],
) -> None:
    ends = [ended(0, begun=0, end=1), ended(1, begun=5, end=8), ended(2, begun=14, end=20)]
    others = [replace(each, container="other") for each in ends]
    hold = HistoryEntry(
        at(8), "hold", RESTART_OF_ALL, reason="CrashLoopBackOff 10s: x", fact="CrashLoopBackOff", seconds=10
    )
    lines = [hold, HistoryEntry(at(13), "signal", *line, reason="an operator", fact=Fact.BACK_OFF_OF_ALL_ENDED)]
    found = ends_of([*ends, *others], lines, [])
    assert {name: [end.cut_short for end in each] for name, each in found.items()} == {
        "app": [False, True, False],
        "other": [False, True, False],
    }


def test_the_end_that_a_restart_rule_answers_is_named_and_no_other() -> None:
    rule = "a restart rule asks for all containers to be restarted"
    lines = [
        exit_line(1),
        exit_line(2, restart=1),
        replace(exit_line(3), subject="other", reason=rule, fact=KillCause.RULE),
        HistoryEntry(at(4), "step", "remove_container", reason=rule, outcome="done", fact=Fact.RESTARTS_ALL),
        exit_line(5, restart=2),
    ]
    words = [end.cause.words for end in ends_of([ended(each, end=each + 1) for each in range(3)], lines, [])["app"]]
    assert words == ["exited 3", "exited 3, so a rule restarted all containers", "exited 3"]


def test_what_was_done_from_outside_and_what_failed_is_told_and_the_rest_is_not() -> None:
    told = changes_of(
        [
            HistoryEntry(at(0), "update", "apply", reason="generation 1", fact=Fact.MADE),
            HistoryEntry(at(1), "step", "start_container", "app", outcome="done", reason="first start"),
            HistoryEntry(at(1), "step", "start_container", "app", outcome=Outcome.NOT_BEGUN, reason="first start"),
            HistoryEntry(at(2), "signal", "restart", "app", reason="an operator restarts app", fact=Fact.ASKED),
            HistoryEntry(
                at(3),
                "step",
                "pull_image",
                "app",
                outcome="ErrImagePull",
                reason="absent: failed to pull: no\nsuch image",
            ),
            HistoryEntry(at(4), "signal", "probe", "app", reason="Liveness probe: failure"),
            HistoryEntry(at(4), "step", "resize_pod", outcome="done", reason="cpu limit of app 1 -> 2"),
            HistoryEntry(at(5), "decision", "sync", reason="start_container app"),
            HistoryEntry(at(6), "decision", "fail", reason="RestartLimitReached: 3"),
            HistoryEntry(at(7), "hold", "app", reason="CrashLoopBackOff 10s: x", fact="CrashLoopBackOff", seconds=10),
            HistoryEntry(at(8), "hold", "app", reason="ImagePullBackOff 10s: x", fact="ImagePullBackOff", seconds=10),
            exit_line(9),
            HistoryEntry(
                at(11),
                "step",
                "pull_image",
                "app",
                outcome="ErrImagePull",
                reason="absent: failed to pull: no\nsuch image",
            ),
        ]
    )
    assert told == [
        OutsideChange(at(0), "apply: generation 1"),
        OutsideChange(at(2), "restart: an operator restarts app"),
        OutsideChange(at(4), "resized in place: cpu limit of app 1 -> 2"),
        OutsideChange(at(6), "the pod failed: RestartLimitReached: 3"),
        OutsideChange(at(8), "app waits: ImagePullBackOff"),
        OutsideChange(at(11), "step pull_image app failed: ErrImagePull: no such image", 2, at(3)),
    ]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            'Exec lifecycle hook ([sh -c ./warm up]) for Container "app" in Pod "p_n(u)" failed - error: '
            'command \'sh -c ./warm up\' exited with 7: , message: "warming\\nno \\"config\\"\\n"',
            'its postStart hook failed: exited 7: no "config"',
        ),
        (
            'Exec lifecycle hook ([a]) for Container "app" in Pod "p" failed - error: command \'a\' exited with 3: cut'
            ' off\n, message: "\\x0',
            "its postStart hook failed: exited 3: \\x0",
        ),
        (
            'HTTP lifecycle hook (/up) for Container "app" in Pod "p" failed - error: connection refused',
            "its postStart hook failed: connection refused",
        ),
        ("", "its postStart hook failed"),
        ("Cannot run handler: no such kind", "its postStart hook failed: Cannot run handler: no such kind"),
    ],
)
def test_a_failed_hook_comes_with_what_it_said_last(message: str, words: str) -> None:
    hooked = ended(0, begun=1, end=2, exit_code=143, cause=message, killed_by=KillCause.HOOK)
    assert cause_of(hooked) == Cause("poststart", words, "the node")
