"""The kubelet's arithmetic of crash-loop, image and step back-off, on values."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.go_durations import go_duration
from syncpod.lifecycle.backoff import (
    EXPIRY,
    FIRST_DELAY,
    BackoffStore,
    StartDecision,
    collect_garbage,
    crash_loop_key,
    forget,
    held_until,
    image_backoff_message,
    image_key,
    record_failure,
    start_decision,
    step_key,
)
from syncpod.pod import Container, ObjectMeta, ResourceRequirements
from syncpod.pod.restart_settings import KUBELETS

EMPTY = BackoffStore()
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
WEB = ObjectMeta(name="web", namespace="default", uid="7f3a")
APP = Container(name="app", image="local/app:1")


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def start(
    store: BackoffStore, *, finished: float | None, now: float, container: Container = APP, pod: ObjectMeta = WEB
) -> tuple[StartDecision, BackoffStore]:
    finished_at = None if finished is None else NOON + seconds(finished)
    return start_decision(store, pod, container, finished_at=finished_at, now=NOON + seconds(now))


def test_a_container_that_never_exited_starts_without_a_back_off_entry() -> None:
    decision, store = start(EMPTY, finished=None, now=0)
    assert decision == StartDecision(allowed=True, delay=timedelta(0))
    assert store == EMPTY


def test_crash_loop_delays_are_0_10_20_40_80_160_300_and_then_300() -> None:
    store, now, waits = EMPTY, 0.0, []
    for _ in range(8):
        finished = now
        decision, after = start(store, finished=finished, now=now)
        if not decision.allowed:
            assert decision.retry_at is not None
            assert after == store
            now = (decision.retry_at - NOON).total_seconds()
            decision, after = start(store, finished=finished, now=now)
        assert decision.allowed
        store = after
        waits.append(now - finished)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_delayed_start_has_the_kubelets_message_and_its_end() -> None:
    _, store = start(EMPTY, finished=0, now=0)
    for turn in range(3):
        _, store = start(store, finished=100 * (turn + 1), now=100 * (turn + 2))
    decision, after = start(store, finished=400, now=410)
    assert not decision.allowed
    assert decision.delay == seconds(80)
    assert decision.retry_at == NOON + seconds(480)
    assert decision.message == "back-off 1m20s restarting failed container=app pod=web_default(7f3a)"
    assert after == store


def test_the_delay_runs_from_the_exit_and_ends_exactly_then() -> None:
    _, store = start(EMPTY, finished=0, now=5)
    assert not start(store, finished=20, now=29.999999)[0].allowed
    assert start(store, finished=20, now=30)[0].allowed


def test_a_crash_loop_ends_after_exactly_ten_minutes_of_running() -> None:
    _, store = start(EMPTY, finished=0, now=0)
    _, store = start(store, finished=50, now=100)
    assert not start(store, finished=700, now=700)[0].allowed
    decision, after = start(store, finished=700.001, now=700.001)
    assert decision == StartDecision(allowed=True, delay=FIRST_DELAY)
    assert after.entries[crash_loop_key(WEB, APP)].grown == 0


@pytest.mark.parametrize(("initial", "factor", "delay"), [(1, 2, 8), (3, 1, 3), (50, 2, 300), (0.5, 3, 13.5)])
def test_a_delay_is_of_the_number_of_crashes_and_todays_settings(initial: float, factor: int, delay: float) -> None:
    """Lower or higher than those under which the pod has crashed."""
    store = EMPTY
    for crash in range(4):
        _, store = start(store, finished=400 * crash, now=400 * (crash + 1))
    today = replace(KUBELETS, initial=seconds(initial), factor=factor)
    finished_at = NOON + seconds(1600)
    decision, _ = start_decision(store, WEB, APP, settings=today, finished_at=finished_at, now=finished_at)
    assert (decision.allowed, decision.delay) == (False, seconds(delay))


def test_back_off_expiry_is_measured_at_the_exit_and_not_at_the_current_time() -> None:
    _, store = start(EMPTY, finished=0, now=0)
    decision, _ = start(store, finished=1, now=5000)
    assert decision == StartDecision(allowed=True, delay=seconds(20))


@pytest.mark.parametrize(
    ("pod", "container"),
    [
        pytest.param(WEB.model_copy(update={"uid": "8"}), APP, id="another pod of the same name"),
        pytest.param(WEB.model_copy(update={"namespace": "x"}), APP, id="another namespace"),
        pytest.param(WEB, APP.model_copy(update={"image": "local/app:2"}), id="another image"),
        pytest.param(WEB, APP.model_copy(update={"name": "app2"}), id="another container"),
        pytest.param(
            WEB,
            APP.model_copy(update={"resources": ResourceRequirements(limits={"cpu": "1"})}),
            id="other resources",
        ),
    ],
)
def test_a_changed_container_identity_resets_the_back_off(pod: ObjectMeta, container: Container) -> None:
    _, store = start(EMPTY, finished=0, now=0)
    assert not start(store, finished=1, now=1)[0].allowed
    assert start(store, finished=1, now=1, pod=pod, container=container)[0].allowed


def test_a_change_of_other_fields_keeps_the_back_off() -> None:
    _, store = start(EMPTY, finished=0, now=0)
    changed = APP.model_copy(update={"args": ("--verbose",)})
    assert not start(store, finished=1, now=1, container=changed)[0].allowed


def test_the_key_does_not_depend_on_the_order_of_resources() -> None:
    one = APP.model_copy(update={"resources": ResourceRequirements(limits={"cpu": "1", "memory": "1Mi"})})
    two = APP.model_copy(update={"resources": ResourceRequirements(limits={"memory": "1Mi", "cpu": "1"})})
    assert crash_loop_key(WEB, one) == crash_loop_key(WEB, two)


def test_garbage_collection_drops_what_is_older_than_ten_minutes() -> None:
    _, store = start(EMPTY, finished=0, now=0)
    assert collect_garbage(store, now=NOON + EXPIRY) is store
    assert collect_garbage(store, now=NOON + EXPIRY + seconds(0.001)) == EMPTY


def test_image_pulls_are_retried_10_20_40_seconds_after_the_last_failure() -> None:
    key = image_key("7f3a", "local/none:1")
    store, now, waits = EMPTY, NOON, []
    for _ in range(8):
        store = record_failure(store, key, now=now, reason="ErrImagePull", message="not found")
        due = held_until(store, key, now=now)
        assert due is not None
        waits.append((due - now).total_seconds())
        assert held_until(store, key, now=due - timedelta(microseconds=1)) == due
        assert held_until(store, key, now=due) is None
        now = due
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert store.entries[key].message == "not found"


def test_an_old_pull_failure_resets_the_image_back_off() -> None:
    key = image_key("7f3a", "local/none:1")
    store = record_failure(record_failure(EMPTY, key, now=NOON), key, now=NOON + seconds(10))
    later = NOON + seconds(10) + EXPIRY + seconds(1)
    assert record_failure(store, key, now=later).entries[key].delay == FIRST_DELAY


def test_a_successful_step_clears_its_back_off() -> None:
    key, other = step_key("start_container", "app"), step_key("create_sandbox")
    store = record_failure(record_failure(EMPTY, key, now=NOON), other, now=NOON)
    forgiven = forget(store, key)
    assert held_until(forgiven, key, now=NOON) is None
    assert held_until(forgiven, other, now=NOON) == NOON + FIRST_DELAY
    assert forget(forgiven, key) is forgiven


def test_an_untried_step_has_no_back_off() -> None:
    assert held_until(EMPTY, step_key("create_sandbox"), now=NOON) is None


def test_the_message_of_a_waiting_pull_carries_the_last_error() -> None:
    assert image_backoff_message("busybox", "not found") == 'Back-off pulling image "busybox": not found'
    assert image_backoff_message("busybox", "") == 'Back-off pulling image "busybox"'


def test_a_back_off_store_survives_a_json_round_trip_with_an_unknown_field() -> None:
    _, store = start(EMPTY, finished=0, now=0.123456)
    store = record_failure(store, step_key("create_sandbox"), now=NOON, reason="FailedCreatePodSandBox", message="no")
    text = store.model_dump_json()
    assert BackoffStore.model_validate_json(text) == store
    assert BackoffStore.model_validate_json(text.replace('"delay"', '"novelty":1,"delay"')) == store
    assert BackoffStore.model_validate({}) == EMPTY


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (0.000005, "5µs"),
        (0.0015, "1.5ms"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (10, "10s"),
        (60, "1m0s"),
        (80, "1m20s"),
        (300, "5m0s"),
        (3600, "1h0m0s"),
        (90061.000001, "25h1m1.000001s"),
        (-80, "-1m20s"),
    ],
)
def test_durations_are_formatted_as_by_go(duration: float, text: str) -> None:
    assert go_duration(seconds(duration)) == text


gaps = st.lists(st.tuples(st.integers(0, 900_000), st.integers(0, 400_000)), min_size=1, max_size=30)


@given(gaps)
def test_a_start_is_never_early_and_never_delayed_by_more_than_five_minutes(history: list[tuple[int, int]]) -> None:
    """Each element: milliseconds that the instance ran, and milliseconds until somebody wants to start it again."""
    store, now = EMPTY, NOON
    for ran, asked in history:
        finished = now + timedelta(milliseconds=ran)
        now = finished + timedelta(milliseconds=asked)
        known = store.entries.get(crash_loop_key(WEB, APP))
        before = min(FIRST_DELAY * 2**known.grown, KUBELETS.maximum) if known is not None else seconds(0)
        decision, after = start_decision(store, WEB, APP, finished_at=finished, now=now)
        if decision.allowed:
            long_ago = all(finished - entry.last_update > EXPIRY for entry in store.entries.values())
            assert long_ago or now - finished >= before
            assert FIRST_DELAY <= decision.delay <= KUBELETS.maximum
        else:
            assert after == store
            assert decision.retry_at is not None
            assert now < decision.retry_at <= finished + KUBELETS.maximum
            now = decision.retry_at
            decision, after = start_decision(store, WEB, APP, finished_at=finished, now=now)
            assert decision.allowed
        store = after


@given(gaps)
def test_decisions_are_the_same_after_a_json_round_trip_of_the_store(history: list[tuple[int, int]]) -> None:
    store, now = EMPTY, NOON
    for ran, asked in history:
        finished = now + timedelta(milliseconds=ran)
        now = finished + timedelta(milliseconds=asked)
        copy = BackoffStore.model_validate_json(store.model_dump_json())
        answer = start_decision(store, WEB, APP, finished_at=finished, now=now)
        assert start_decision(copy, WEB, APP, finished_at=finished, now=now) == answer
        store = answer[1]
