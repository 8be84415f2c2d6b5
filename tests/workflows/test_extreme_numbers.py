"""A pod's workflow handles every number that a manifest, a deletion or an eviction may contain.

Holds: No number in a manifest wedges a pod.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from syncpod.lifecycle.actions import StepName
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox, Seq
from syncpod.lifecycle.version import DECISION_VERSION
from syncpod.messages.signals import DeletePod, Evict
from syncpod.messages.steps import KillContainer, KillPod, KillTarget
from syncpod.pod import admit_pod, container_hash, pod_to_wire
from workflows.pod import decide, desired, observing, report, start, verdicts
from workflows.pod.state import PodState
from workflows.rejections import Rejected

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LARGEST = 2**63 - 1
HUNDRED_YEARS = 100 * 365 * 86_400

graces = st.integers(0, LARGEST) | st.sampled_from((0, 1, HUNDRED_YEARS, 252_455_615_999, 10**11, 2**31, LARGEST))


def a_running_pod(grace: int, *, probe: int | None = None, deadline: int | None = None) -> PodState:
    """A pod with one running container, and these numbers in its spec."""
    liveness: dict[str, Any] = {"exec": {"command": ["false"]}, "periodSeconds": 2**31 - 1}
    if probe is not None:
        liveness["terminationGracePeriodSeconds"] = probe
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid"},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "activeDeadlineSeconds": deadline,
            "containers": [{"name": "web", "image": "x:1", "livenessProbe": liveness}],
        },
    }
    state = PodState(pod=admit_pod(document), incarnation="life")
    sandbox = ObservedSandbox(id="s0", state="SANDBOX_READY", ip="10.0.0.1", incarnation="life")
    web = ObservedContainer(
        id="web-0", name="web", sandbox_id="s0", state="running", hash=container_hash("web", "x:1"),
        started_at=NOW, created_at=NOW, incarnation="life",
    )  # fmt: skip
    listing = ObservedPod(
        seq=Seq(boot=1, counter=1), uid="uid", observed_at=NOW, sandboxes=(sandbox,), containers=(web,)
    )
    observing.observe(state, listing, NOW)
    report.update_status(state, (), NOW)
    return state


def killed(state: PodState, now: datetime) -> KillPod:
    """The input of the pod's kill that begins at `now`."""
    step = decide.next_step(state, now).step
    assert step is not None
    assert step.name == StepName.KILL_POD
    taken = decide.record_step(state, step, now)
    assert isinstance(taken, KillPod)
    return taken


@given(graces, st.none() | graces, st.none() | graces)
@example(LARGEST, None, None)
@example(30, LARGEST, LARGEST)
def test_a_pod_with_any_grace_is_deleted_with_any_other(grace: int, asked: int | None, shorter: int | None) -> None:
    state = a_running_pod(grace)
    desired.delete(state, DeletePod(grace_period_seconds=asked), NOW)
    wanted = max(1, grace) if asked is None else asked
    first = killed(state, NOW)
    assert first.targets[0].grace_seconds <= max(1, wanted)
    if shorter is not None:
        desired.delete(state, DeletePod(grace_period_seconds=shorter), NOW)
    again = killed(state, NOW + timedelta(seconds=3))
    assert again.targets[0].grace_seconds <= min(max(1, wanted), max(1, wanted if shorter is None else shorter))
    report.update_status(state, (), NOW)
    assert pod_to_wire(desired.as_pod(state))["metadata"]["deletionTimestamp"] <= "2125-12-09"
    assert start.initial_state(
        start.next_input(state), "pod/default/web", NOW, _none, "node/n", decisions=DECISION_VERSION
    )[0].deletion == (state.deletion), "what is so far away is carried over, too"


def _none() -> Any:
    raise AssertionError("a snapshot needs no new id")


@given(graces, st.integers(-LARGEST, LARGEST))
@example(30, LARGEST)
def test_a_pod_is_evicted_with_any_grace(grace: int, given_: int) -> None:
    state = a_running_pod(grace)
    verdicts.evict(state, Evict(uid="uid", message="no room", grace_period_seconds=given_), NOW)
    assert killed(state, NOW).targets[0].grace_seconds == min(max(0, given_), HUNDRED_YEARS)
    verdicts.evict(state, Evict(uid="uid", message="no room", grace_period_seconds=LARGEST), NOW)


@given(graces, graces.filter(lambda seconds: seconds > 0))
@example(2, LARGEST)
def test_a_probe_may_have_any_grace_which_does_not_affect_the_pods(grace: int, own: int) -> None:
    state = a_running_pod(grace, probe=own)
    state.probes = {"liveness": {"web-0": "failure"}}
    step = decide.next_step(state, NOW).step
    assert step is not None
    assert isinstance(step.input, KillContainer)
    assert step.input.target.grace_seconds == own
    desired.delete(state, DeletePod(), NOW)
    assert killed(state, NOW).targets[0].grace_seconds == max(1, grace)


@given(st.integers(1, 2**31 - 1))
def test_a_pod_may_have_any_active_deadline(deadline: int) -> None:
    state = a_running_pod(30, deadline=deadline)
    assert verdicts.expiry(state) == NOW + timedelta(seconds=deadline)
    verdicts.expire(state, NOW + timedelta(seconds=deadline))
    assert state.failure is not None


@given(graces, st.floats(0, 1e12))
def test_the_remainder_of_any_grace_is_a_valid_runtime_timeout(grace: int, waited: float) -> None:
    assert 2 <= KillTarget(grace_seconds=grace).timeout_seconds(waited) <= max(2, grace)


@pytest.mark.parametrize(("grace", "why"), [(-1, "must be 0 or more"), (2**63, f"must be no more than {LARGEST}")])
def test_a_deletion_with_an_invalid_grace_is_refused(grace: int, why: str) -> None:
    state = a_running_pod(30)
    with pytest.raises(Rejected, match=f"gracePeriodSeconds: {why}"):
        desired.delete(state, DeletePod(grace_period_seconds=grace), NOW)
    assert state.deletion is None


@pytest.mark.parametrize("restarts", [{"web": 2**31 - 1}, {"web": LARGEST}, {"web": -1}, {"web": True}, ["web"], None])
def test_a_start_with_wrong_numbers_of_restarts_is_refused_by_its_field(restarts: Any) -> None:
    given = {"pod": pod_to_wire(a_running_pod(1).pod), "restarts": restarts}
    _, why = start.initial_state(given, "pod/default/web", NOW, uuid4, "node/n", decisions=DECISION_VERSION)
    assert why == 'restarts: must be {"<container>": <a number from 0 to 2147483646>}'
