"""The conditions of a pod: status, reason, message and transition time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from syncpod.lifecycle import conditions
from syncpod.lifecycle.kubelet_version import KubeletVersion
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.pod import ContainerStatus, Pod, PodCondition

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
READY = {"ready": True, "started": True, "state": {"running": {}}}
UNREADY = {"ready": False, "started": True, "state": {"running": {}}}
DONE = {"ready": True, "state": {"terminated": {"exitCode": 0}}}
FAILED = {"ready": False, "state": {"terminated": {"exitCode": 1}}}

POD = Pod.model_validate(
    {
        "spec": {
            "initContainers": [
                {"name": "migrate"},
                {"name": "mesh", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "web"}, {"name": "log"}],
        }
    }
)


def statuses(**fields: dict[str, Any]) -> tuple[ContainerStatus, ...]:
    return tuple(ContainerStatus.model_validate({"name": name, **given}) for name, given in fields.items())


def answer(condition: PodCondition) -> tuple[str | None, str, str]:
    return condition.status, condition.reason, condition.message


INITIALIZED: dict[str, tuple[tuple[str, str, str], tuple[ContainerStatus, ...] | None, str]] = {
    "nothing is known": (("False", "UnknownContainerStatuses", ""), None, "Pending"),
    "nothing has been made": (
        ("False", "ContainersNotInitialized", "containers with unknown status: [migrate mesh]"),
        (),
        "Pending",
    ),
    "the first has failed": (
        (
            "False",
            "ContainersNotInitialized",
            "containers with unknown status: [mesh], containers with incomplete status: [migrate]",
        ),
        statuses(migrate=FAILED),
        "Pending",
    ),
    "the sidecar has not started": (
        ("False", "ContainersNotInitialized", "containers with incomplete status: [mesh]"),
        statuses(migrate=DONE, mesh={"state": {"running": {}}}),
        "Pending",
    ),
    "the sidecar has started, ready or not": (("True", "", ""), statuses(migrate=DONE, mesh=UNREADY), "Pending"),
    "the sidecar restarts beside main containers": (
        ("True", "", ""),
        statuses(migrate=DONE, mesh=FAILED, web=READY),
        "Running",
    ),
    "the pod has succeeded": (("True", "PodCompleted", ""), statuses(migrate=DONE, mesh=FAILED, web=DONE), "Succeeded"),
}


@pytest.mark.parametrize(("expected", "known", "phase"), INITIALIZED.values(), ids=INITIALIZED.keys())
def test_initialized(expected: Any, known: Any, phase: str) -> None:
    """Row 100: Initialized."""
    assert answer(conditions.initialized_condition(POD, known, phase)) == expected


def test_a_pod_without_init_containers_is_initialized_from_the_start() -> None:
    pod = Pod.model_validate({"spec": {"containers": [{"name": "web"}]}})
    assert answer(conditions.initialized_condition(pod, None, "Pending")) == ("True", "", "")


def test_an_initialized_pod_stays_initialized_while_its_init_containers_run_again() -> None:
    before = (PodCondition(type="Initialized", status="True"),)
    again = statuses(migrate={"state": {"running": {}}})
    assert answer(conditions.initialized_condition(POD, again, "Pending", old_conditions=before)) == ("True", "", "")


CONTAINERS_READY: dict[str, tuple[tuple[str, str, str], tuple[ContainerStatus, ...] | None, str]] = {
    "nothing is known": (("False", "UnknownContainerStatuses", ""), None, "Pending"),
    "sidecars come first, then main containers": (
        (
            "False",
            "ContainersNotReady",
            "containers with unknown status: [mesh log], containers with unready status: [web]",
        ),
        statuses(web=UNREADY),
        "Running",
    ),
    "plain init containers do not matter": (
        ("True", "", ""),
        statuses(migrate=FAILED, mesh=READY, web=READY, log=READY),
        "Running",
    ),
    "the pod has succeeded": (("False", "PodCompleted", ""), statuses(mesh=DONE, web=DONE, log=DONE), "Succeeded"),
    "succeeded, with a container nobody knows": (
        ("False", "ContainersNotReady", "containers with unknown status: [log]"),
        statuses(mesh=READY, web=READY),
        "Succeeded",
    ),
    "the pod has failed, ready or not": (("False", "PodFailed", ""), statuses(mesh=READY, web=READY), "Failed"),
}


@pytest.mark.parametrize(("expected", "known", "phase"), CONTAINERS_READY.values(), ids=CONTAINERS_READY.keys())
def test_containers_ready_and_ready_without_gates(expected: Any, known: Any, phase: str) -> None:
    """Row 100: ContainersReady and Ready."""
    assert answer(conditions.containers_ready_condition(POD, known, phase)) == expected
    ready = conditions.ready_condition(POD, known, phase, conditions=())
    assert ready.type == "Ready"
    assert answer(ready) == expected


def test_readiness_gates_are_evaluated_in_order_once_containers_are_ready() -> None:
    """Row 100: ReadinessGatesNotReady."""
    gates = [{"conditionType": "example.com/one"}, {"conditionType": "example.com/two"}]
    pod = Pod.model_validate({"spec": {"containers": [{"name": "web"}], "readinessGates": gates}})
    one = PodCondition(type="example.com/one", status="False")
    known = statuses(web=READY)
    assert answer(conditions.ready_condition(pod, known, "Running", conditions=(one,))) == (
        "False",
        "ReadinessGatesNotReady",
        'the status of pod readiness gate "example.com/one" is not "True", but False, '
        'corresponding condition of pod readiness gate "example.com/two" does not exist.',
    )
    both = tuple(PodCondition(type=gate["conditionType"], status="True") for gate in gates)
    assert answer(conditions.ready_condition(pod, known, "Running", conditions=both)) == ("True", "", "")
    unready = conditions.ready_condition(pod, statuses(web=UNREADY), "Running", conditions=both)
    assert unready.reason == "ContainersNotReady"


@pytest.mark.parametrize(
    ("sandboxes", "status", "why"),
    [
        pytest.param((), "False", "no pod sandbox exists", id="no sandbox"),
        pytest.param((ObservedSandbox(id="s", state="SANDBOX_READY", ip="10.0.0.1"),), "True", "", id="a ready one"),
        pytest.param(
            (ObservedSandbox(id="s", state="SANDBOX_READY", ip=""),),
            "False",
            "pod sandbox has no IP address",
            id="one without an address",
        ),
        pytest.param((ObservedSandbox(id="s"),), "False", "pod sandbox is not ready", id="a dead one"),
    ],
)
def test_ready_to_start_containers(sandboxes: Any, status: str, why: str) -> None:
    """Row 100: PodReadyToStartContainers."""
    observed = ObservedPod(sandboxes=sandboxes)
    plain = conditions.ready_to_start_containers_condition(POD, observed, KubeletVersion.V1_36)
    assert (plain.status, plain.reason, plain.message) == (status, "", "")
    explained = conditions.ready_to_start_containers_condition(POD, observed, KubeletVersion.V1_37)
    assert explained.status == status
    assert (explained.reason, explained.message) == (("PodSandboxNotReady", why) if why else ("", ""))


RESTARTS_ALL = Pod.model_validate(
    {
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "web",
                    "restartPolicy": "Never",
                    "restartPolicyRules": [
                        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
                    ],
                },
                {"name": "log"},
            ],
        }
    }
)
IN_PROGRESS = (PodCondition(type="AllContainersRestarting", status="True"),)


@pytest.mark.parametrize(
    ("containers", "old", "phase", "expected"),
    [
        pytest.param({"web": 0}, (), "Running", ("False", "", ""), id="an exit that asks for nothing"),
        pytest.param(
            {"web": 42},
            (),
            "Running",
            ("True", "RestartAllContainersStarted", "container exited with restart policy rule"),
            id="an exit that asks for it",
        ),
        pytest.param(
            {"log": 0},
            IN_PROGRESS,
            "Running",
            ("True", "RestartAllContainersStarted", "container exited with restart policy rule"),
            id="under way while anything is left",
        ),
        pytest.param({}, IN_PROGRESS, "Pending", ("False", "", ""), id="over when nothing is left"),
        pytest.param(
            {"web": 42}, IN_PROGRESS, "Failed", ("False", "PodFailed", ""), id="a failed pod has done with it"
        ),
        pytest.param({"web": 42}, IN_PROGRESS, "Succeeded", ("False", "PodCompleted", ""), id="and one that succeeded"),
    ],
)
def test_all_containers_restarting(containers: dict[str, int], old: Any, phase: str, expected: Any) -> None:
    """Row 100, row 75: AllContainersRestarting."""
    observed = ObservedPod(
        containers=tuple(
            ObservedContainer(id=name, name=name, state="exited", exit_code=code) for name, code in containers.items()
        )
    )
    got = conditions.all_containers_restarting_condition(RESTARTS_ALL, observed, phase, old_conditions=old)
    assert answer(got) == expected


def test_only_a_pod_with_a_restart_all_rule_has_the_condition() -> None:
    assert conditions.all_containers_could_restart(RESTARTS_ALL)
    assert not conditions.all_containers_could_restart(POD)


def test_the_transition_time_changes_only_with_the_status() -> None:
    """Row 100: lastTransitionTime."""
    first = conditions.stamp(PodCondition(type="Ready", status="False", reason="a"), (), now=NOON, generation=1)
    assert (first.last_transition_time, first.observed_generation) == (NOON, 1)
    later = NOON + timedelta(minutes=1)
    reworded = conditions.stamp(
        PodCondition(type="Ready", status="False", reason="b"), (first,), now=later, generation=2
    )
    assert (reworded.last_transition_time, reworded.observed_generation) == (NOON, 2)
    flipped = conditions.stamp(PodCondition(type="Ready", status="True"), (reworded,), now=later, generation=2)
    assert flipped.last_transition_time == later


def test_statuses_are_unknown_only_before_the_first_listing() -> None:
    assert conditions.known_statuses(None, None) is None
    assert conditions.known_statuses((), ()) == ()
    both = conditions.known_statuses(statuses(migrate=DONE), statuses(web=READY))
    assert both is not None
    assert [status.name for status in both] == ["migrate", "web"]
