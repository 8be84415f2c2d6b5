"""Restart pacing by the pod's own settings: back-off, exempt exits and a limit.

Holds: No container restarts in a hot loop.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle import backoff
from syncpod.lifecycle.backoff import EXEMPT_AT_ONCE, BackoffStore, collect_garbage, crash_loop_key, start_decision
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.restart_pacing import (
    RestartPermission,
    restart_all,
    restart_container,
    restart_keys,
)
from syncpod.pod import Container, ObjectMeta, Pod, PodSpec
from syncpod.pod.restart_settings import KUBELETS, RestartSettings

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
WEB = ObjectMeta(name="web", namespace="default", uid="7f3a")
APP = Container(name="app", image="local/app:1")
KEY = crash_loop_key(WEB, APP)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def ended(at: datetime, code: int, id: str = "", by_us: bool = False) -> Exit:
    return Exit(id=id, exit_code=code, at=at, cause="the liveness probe has failed" if by_us else "")


class Loop:
    """One container that runs, ends and is started again as early as permitted, with a clock of its own."""

    def __init__(self, settings: RestartSettings) -> None:
        self.settings = settings
        self.store = BackoffStore()
        self.now = NOON
        self.exits = 0

    def again(self, code: int = 1, *, ran: float = 0.0, by_us: bool = False) -> RestartPermission:
        """Let it end after `ran` seconds and start again; return the first decision after the end."""
        self.now += seconds(ran)
        self.exits += 1
        self.ended = ended(self.now, code, f"exit {self.exits}", by_us)
        first, store = self.ask()
        if not first.allowed and first.retry_at is not None:
            assert store == self.store, "what is held back leaves no trace"
            assert self.now < first.retry_at
            self.now = first.retry_at
            then, store = self.ask()
            assert then.allowed, "exactly when it was said"
        self.store = collect_garbage(store, now=self.now, settings=self.settings, current=[KEY])
        return first

    def ask(self) -> tuple[RestartPermission, BackoffStore]:
        return restart_container(self.store, self.settings, WEB, APP, self.ended, now=self.now)


def waits(loop: Loop, count: int, code: int = 1, ran: float = 0.0) -> list[float]:
    """Return how long each of this many restarts waits."""
    return [_wait(loop, code, ran) for _ in range(count)]


def _wait(loop: Loop, code: int, ran: float) -> float:
    before = loop.now
    loop.again(code, ran=ran)
    return (loop.now - before).total_seconds() - ran


def test_the_pods_back_off_settings_determine_its_delays() -> None:
    loop = Loop(RestartSettings(initial=seconds(2), factor=1.5, maximum=seconds(6)))
    assert waits(loop, 6) == [0, 2, 3, 4.5, 6, 6]


def test_the_back_off_resets_after_the_configured_run_time_and_not_before() -> None:
    loop = Loop(RestartSettings(reset_after=seconds(30)))
    assert waits(loop, 3) == [0, 10, 20]
    assert _wait(loop, 1, ran=30) == 40
    assert _wait(loop, 1, ran=30.001) == 0


def test_a_delay_longer_than_ten_minutes_is_kept_until_it_ends() -> None:
    settings = RestartSettings(initial=seconds(3600), maximum=seconds(7200), reset_after=seconds(3600))
    loop = Loop(settings)
    assert waits(loop, 2) == [0, 3600]
    loop.now += seconds(5)
    loop.ended = ended(loop.now, 1)
    later = loop.now + seconds(7000)
    kept = collect_garbage(loop.store, now=later, settings=settings, current=[KEY])
    assert not restart_container(kept, settings, WEB, APP, loop.ended, now=later)[0].allowed


def test_changed_settings_apply_to_the_current_delay() -> None:
    loop = Loop(RestartSettings())
    waits(loop, 6)
    loop.ended = ended(loop.now, 1)
    assert loop.ask()[0].retry_at == loop.now + seconds(300)
    loop.settings = RestartSettings(maximum=seconds(30))
    assert loop.ask()[0].retry_at == loop.now + seconds(30)
    assert "back-off 30s restarting" in loop.ask()[0].message
    loop.settings = RestartSettings(initial=seconds(3600), maximum=seconds(3600), reset_after=seconds(3600))
    assert loop.ask()[0].retry_at == loop.now + seconds(3600)


def test_exempt_exits_restart_at_once_and_leave_the_crash_loop_alone() -> None:
    loop = Loop(RestartSettings(exempt=(0, 143)))
    assert waits(loop, 3) == [0, 10, 20]
    assert [_wait(loop, code, ran=60) for code in (0, 143, 0)] == [0, 0, 0]
    assert _wait(loop, 1, ran=0) == 40


def test_exempt_exits_restart_five_times_at_once_and_then_every_ten_seconds() -> None:
    loop = Loop(RestartSettings(exempt=(0,)))
    assert waits(loop, 8, code=0) == [0] * EXEMPT_AT_ONCE + [10] * 3
    assert loop.again(0).message == (
        "back-off 10s restarting container=app pod=web_default(7f3a): "
        "it exits with 0 too often to be restarted at once each time"
    )
    assert _wait(loop, 0, ran=20) == 0, "and has places again once it has run for longer"


def test_an_exempt_code_does_not_count_for_a_killed_container() -> None:
    loop = Loop(RestartSettings(exempt=(143,)))
    assert loop.again(143, by_us=True).allowed
    assert not loop.again(143, by_us=True).allowed


def test_a_restart_limit_holds_a_container_after_that_many_consecutive_restarts() -> None:
    loop = Loop(RestartSettings(limit=3))
    assert waits(loop, 3) == [0, 10, 20]
    held = loop.again()
    assert (held.allowed, held.retry_at, held.reason, held.fails) == (False, None, "RestartLimitReached", False)
    assert held.message == (
        "restarted container app 3 times in a row, which is the pod's syncpod.dev/restart-limit; waits for "
        "`syncpod retry`"
    )
    loop.now += timedelta(days=30)
    loop.store = collect_garbage(loop.store, now=loop.now, settings=loop.settings, current=[KEY])
    assert not loop.ask()[0].allowed, "for as long as nobody says otherwise"
    loop.settings = RestartSettings(limit=4)
    assert loop.ask()[0].allowed, "or the limit is raised"


def test_a_restart_limit_may_fail_the_pod_or_be_zero() -> None:
    loop = Loop(RestartSettings(limit=0, action="fail"))
    assert loop.again().fails
    assert Loop(RestartSettings(limit=0, exempt=(7,))).again(7).allowed, "what is exempt does not count"


def test_a_long_run_resets_the_restart_limit_and_a_failed_start_counts_once() -> None:
    loop = Loop(RestartSettings(limit=2))
    waits(loop, 2)
    assert loop.again(ran=601).allowed
    ended, store = loop.ended, loop.store
    for _ in range(5):  # for example, the pull fails: the same exit is evaluated again
        answer, store = restart_container(store, loop.settings, WEB, APP, ended, now=loop.now + seconds(1000))
        assert answer.allowed
    assert store.entries[KEY].restarts == 1


def test_changed_settings_apply_to_a_crash_loop_in_progress() -> None:
    """Crashes are counted under any settings, and the delay is computed from the current settings."""
    loop = Loop(RestartSettings(initial=seconds(600), factor=3, maximum=seconds(86400), reset_after=seconds(90000)))
    assert waits(loop, 4) == [0, 600, 1800, 5400]
    for settings, wait in (
        (RestartSettings(initial=seconds(1)), 8),
        (RestartSettings(initial=seconds(1), factor=1), 1),
        (RestartSettings(initial=seconds(1), factor=10, maximum=seconds(7200), reset_after=seconds(7200)), 1000),
        (RestartSettings(initial=seconds(100), maximum=seconds(200)), 200),
    ):
        loop.settings = settings
        loop.exits += 1
        loop.ended = ended(loop.now, 1, f"exit {loop.exits}")
        held, _ = loop.ask()
        assert (held.delay, held.retry_at) == (seconds(wait), loop.now + seconds(wait))


def test_no_number_of_crashes_makes_a_delay_too_large_to_compute() -> None:
    settings = RestartSettings(factor=10)
    store = BackoffStore(entries={KEY: backoff.BackoffEntry(grown=1_000_000, last_update=NOON)})
    held, _ = restart_container(store, settings, WEB, APP, ended(NOON, 1), now=NOON)
    assert held.delay == settings.maximum


def test_changed_settings_apply_to_exempt_exits_too() -> None:
    loop = Loop(RestartSettings(initial=seconds(600), maximum=seconds(3600), exempt=(3,)))
    assert waits(loop, 6, code=3) == [0, 0, 0, 0, 0, 600]
    loop.settings = RestartSettings(initial=seconds(2), exempt=(3,))
    assert waits(loop, 2, code=3) == [2, 2]
    loop.settings = RestartSettings(initial=seconds(600), maximum=seconds(3600), exempt=(3,))
    assert waits(loop, 2, code=3) == [600, 600]


def test_an_operators_restart_resets_the_restart_limit() -> None:
    loop = Loop(RestartSettings(limit=2))
    waits(loop, 2)
    assert not loop.again().allowed
    loop.store = backoff.started_by_operator(loop.store, KEY, now=loop.now)
    assert [loop.again().reason for _ in range(3)] == ["CrashLoopBackOff", "CrashLoopBackOff", "RestartLimitReached"]
    loop.store = backoff.uncounted(loop.store, KEY)
    assert loop.again().reason == "CrashLoopBackOff"


def test_restart_settings_apply_to_a_restart_of_all_containers_as_a_whole() -> None:
    settings = RestartSettings(initial=seconds(3), limit=2, exempt=(9,))
    store, now, seen = BackoffStore(), NOON, []
    for number, code in enumerate((1, 1, 9, 1)):
        exit_ = ended(now, code, str(number))
        answer, after = restart_all(store, settings, WEB, "app exited", exit_, now=now)
        seen.append((answer.reason, answer.delay.total_seconds()))
        if answer.retry_at is not None:
            now = answer.retry_at
            after = restart_all(store, settings, WEB, "app exited", exit_, now=now)[1]
        store = after
    assert seen == [("", 3), ("CrashLoopBackOff", 3), ("", 0), ("RestartLimitReached", 0)]


def test_crash_loops_include_those_of_containers_and_of_the_whole_pod() -> None:
    pod = Pod(metadata=WEB, spec=PodSpec(containers=(APP,)))
    assert restart_keys(pod) == (KEY, "step/restart_all_containers")


lives = st.lists(st.tuples(st.sampled_from([0, 1, 143]), st.floats(0, 900), st.booleans()), min_size=1, max_size=40)
spans = st.integers(1, 3600).map(seconds)


@st.composite
def settings_taken(draw: st.DrawFn) -> RestartSettings:
    """Settings that validation accepts."""
    maximum = draw(spans)
    initial = draw(spans.filter(lambda span: span <= maximum)) if maximum > seconds(1) else seconds(1)
    return RestartSettings(
        initial=initial,
        maximum=maximum,
        factor=draw(st.floats(1, 10)),
        reset_after=max(seconds(10), initial, draw(spans)),
        exempt=draw(st.sampled_from([(), (0,), (0, 1, 143)])),
        limit=draw(st.none() | st.integers(0, 50)),
    )


@given(settings_taken(), lives)
def test_valid_settings_never_allow_a_hot_restart_loop(
    settings: RestartSettings, history: list[tuple[int, float, bool]]
) -> None:
    loop = Loop(settings)
    starts = 0
    for code, ran, by_us in history:
        if loop.again(code, ran=ran, by_us=by_us).reason == "RestartLimitReached":
            break
        starts += 1
    # The first restart of a row is free, each exempt burst too; every other costs `initial`.
    rows = 1 + (loop.now - NOON) / settings.reset_after
    paced = (loop.now - NOON) / settings.initial
    assert starts <= rows + EXEMPT_AT_ONCE + 2 * paced + 1
    if settings.limit is not None and not settings.exempt:
        assert starts <= rows * (settings.limit + 1)
    assert len(loop.store.entries) <= 2


@given(st.lists(st.tuples(st.integers(0, 900_000), st.integers(0, 400_000)), min_size=1, max_size=30))
def test_a_pod_without_restart_settings_is_paced_as_by_the_kubelet(history: list[tuple[int, int]]) -> None:
    store, now = BackoffStore(), NOON
    for ran, asked in history:
        finished = now + timedelta(milliseconds=ran)
        now = finished + timedelta(milliseconds=asked)
        ours, after = restart_container(store, KUBELETS, WEB, APP, ended(finished, 0), now=now)
        theirs, _ = start_decision(store, WEB, APP, finished_at=finished, now=now)
        store = after
        answer = (ours.allowed, ours.delay, ours.retry_at, ours.message)
        assert answer == (theirs.allowed, theirs.delay, theirs.retry_at, theirs.message)
        assert not ours.fails
