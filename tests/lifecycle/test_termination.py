"""The grace periods of a pod and its containers, and the order in which they end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.termination import (
    LONGEST_SECONDS,
    kill_grace_seconds,
    moment_after,
    pod_grace_seconds,
    stop_timeout_seconds,
    termination_order,
)
from syncpod.pod import Pod


def pod(*, spec: int | None = 30, deletion: int | None = None, **container: Any) -> Pod:
    return Pod.model_validate(
        {
            "metadata": {"name": "foo", "deletionGracePeriodSeconds": deletion},
            "spec": {
                "terminationGracePeriodSeconds": spec,
                "containers": [{"name": "foo", "image": "busybox", **container}],
            },
        }
    )


LIVENESS: dict[str, Any] = {"livenessProbe": {"terminationGracePeriodSeconds": 7}}
STARTUP: dict[str, Any] = {"startupProbe": {"terminationGracePeriodSeconds": 9}}


@pytest.mark.parametrize(
    ("what", "cause", "seconds"),
    [
        (pod(), KillCause.UPDATE, 30),
        (pod(spec=None), None, 2),
        (pod(spec=0), None, 0),
        (pod(deletion=10), None, 10),
        (pod(deletion=0), None, 0),
        (pod(**LIVENESS, **STARTUP), None, 30),
        (pod(**LIVENESS, **STARTUP), KillCause.STATE_LOST, 30),
        (pod(**LIVENESS, **STARTUP), KillCause.LIVENESS, 7),
        (pod(**LIVENESS, **STARTUP), KillCause.STARTUP, 9),
        (pod(**LIVENESS), KillCause.STARTUP, 30),
        (pod(livenessProbe={"terminationGracePeriodSeconds": 90}), KillCause.LIVENESS, 90),
        (pod(livenessProbe={}), KillCause.LIVENESS, 30),
        (pod(deletion=10, **LIVENESS), KillCause.LIVENESS, 10),
    ],
    ids=[
        "the pod's own",
        "nothing said: 2 s",
        "a pod's 0 is 0",
        "the deletion's before the pod's",
        "a deletion's 0 is 0",
        "probes have no say in an ordinary kill",
        "nor in one for a state that is unknown",
        "the liveness probe's, when it failed",
        "the startup probe's, when it failed",
        "not another probe's",
        "a probe's may be longer than the pod's",
        "the pod's, when the failed probe has none",
        "the deletion's before the failed probe's",
    ],
)
def test_the_grace_period_of_one_kill(what: Pod, cause: KillCause | None, seconds: int) -> None:
    """Row 76: the deletion's, the probe's own, the pod's."""
    assert kill_grace_seconds(what, what.spec.containers[0], cause) == seconds


def test_a_container_no_longer_in_the_spec_gets_the_pods_grace() -> None:
    assert kill_grace_seconds(pod(), None, KillCause.LIVENESS) == 30


@pytest.mark.parametrize(
    ("what", "seconds"),
    [
        (pod(), 30),
        (pod(deletion=20), 20),
        (pod(deletion=60), 60),
        (pod(deletion=0), 1),
        (pod(spec=None), 1),
        (pod(spec=0), 1),
    ],
)
def test_the_grace_of_a_terminating_pod_is_the_deletions_else_its_own_and_at_least_one_second(
    what: Pod, seconds: int
) -> None:
    """Row 17: one second at the least."""
    assert pod_grace_seconds(what) == seconds


@pytest.mark.parametrize(
    ("grace", "waited", "seconds"),
    [(30, 0.0, 30), (30, 4.9, 26), (30, 29.0, 2), (30, 300.0, 2), (1, 0.0, 2), (0, 0.0, 2)],
)
def test_the_time_since_the_kill_was_ordered_is_deducted_down_to_two_seconds(
    grace: int, waited: float, seconds: int
) -> None:
    """Row 77, row 79: whole seconds, and a floor of two."""
    assert stop_timeout_seconds(grace, waited_seconds=waited) == seconds


SIDECARS = Pod.model_validate(
    {
        "spec": {
            "initContainers": [
                {"name": "proxy", "restartPolicy": "Always"},
                {"name": "migrate"},
                {"name": "logs", "restartPolicy": "Always"},
                {"name": "metrics", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "web"}, {"name": "worker"}],
            "ephemeralContainers": [{"name": "debug"}],
        }
    }
).spec


def test_main_containers_end_first_then_sidecars_in_the_reverse_of_their_order() -> None:
    """Row 80: the order with sidecars."""
    order = termination_order(SIDECARS, ["proxy", "logs", "metrics", "web", "worker"])
    assert order == {
        "web": (),
        "worker": (),
        "metrics": ("web", "worker"),
        "logs": ("web", "worker", "metrics"),
        "proxy": ("web", "worker", "metrics", "logs"),
    }


def test_no_container_waits_for_one_that_does_not_run() -> None:
    assert termination_order(SIDECARS, ["worker", "proxy"]) == {"worker": (), "proxy": ("worker",)}


def test_a_sidecar_that_ended_early_does_not_let_an_earlier_one_end_before_its_turn() -> None:
    assert termination_order(SIDECARS, ["proxy", "metrics"])["proxy"] == ("metrics",)


def test_init_ephemeral_and_unknown_containers_are_not_part_of_the_termination_order() -> None:
    running = ["debug", "migrate", "stranger", "logs"]
    assert termination_order(SIDECARS, running) == {name: () for name in running}


def test_without_sidecars_all_containers_end_at_the_same_time() -> None:
    """Row 80: no order without sidecars."""
    plain = pod().spec
    assert termination_order(plain, ["foo"]) == {"foo": ()}
    assert termination_order(plain, []) == {}


def test_no_two_containers_wait_for_each_other() -> None:
    order = termination_order(SIDECARS, ["proxy", "logs", "metrics", "web", "worker", "migrate", "debug"])
    ended: set[str] = set()
    while len(ended) < len(order):
        ending = {name for name, before in order.items() if ended.issuperset(before)} - ended
        assert ending, "everything left waits for something left"
        ended |= ending


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.integers(-(2**70), 2**70))
@example(2**63 - 1)
@example(LONGEST_SECONDS)
@example(-1)
def test_a_deadline_of_any_number_of_seconds_is_a_valid_time_not_in_the_past(seconds: int) -> None:
    moment = moment_after(NOW, seconds)
    assert NOW <= moment <= NOW + timedelta(seconds=LONGEST_SECONDS)
    assert moment_after(NOW, seconds + 1) >= moment
    if 0 <= seconds <= LONGEST_SECONDS:
        assert moment == NOW + timedelta(seconds=seconds)
