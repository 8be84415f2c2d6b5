"""A pod's status over its life: each test is a sequence of states in the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.container_status import ProbeResults, WaitingReason
from syncpod.lifecycle.exit import Exit
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox, order_containers
from syncpod.lifecycle.status import (
    PodFailure,
    StatusDecision,
    StatusInputs,
    pod_status,
    terminated_pod_status,
)
from syncpod.pod import (
    ContainerStatus,
    ContainerUser,
    LinuxContainerUser,
    Pod,
    PodCondition,
    PodStatus,
    pod_to_wire,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SANDBOX = ObservedSandbox(id="sandbox", state="SANDBOX_READY", ip="10.0.0.1")
ONE = {"containers": [{"name": "web", "image": "local/web:1"}]}
SIDECAR = {"name": "mesh", "image": "local/mesh:1", "restartPolicy": "Always"}
WITH_INIT = {
    "initContainers": [{"name": "migrate", "image": "local/migrate:1"}, SIDECAR],
    "containers": [{"name": "web", "image": "local/web:1"}],
}
CRASH_LOOP = WaitingReason(reason="CrashLoopBackOff", message="back-off 10s restarting failed container=web")


@dataclass
class Story:
    """A pod, its state in the runtime, and its last status. Each new status is one second later."""

    spec: dict[str, Any]
    metadata: dict[str, Any] = field(
        default_factory=lambda: {"name": "web", "namespace": "default", "uid": "7f3a", "generation": 1}
    )
    containers: list[ObservedContainer] = field(default_factory=list)
    sandboxes: tuple[ObservedSandbox, ...] = (SANDBOX,)
    waiting: dict[str, WaitingReason] = field(default_factory=dict)
    exits: dict[str, Exit] = field(default_factory=dict)
    probes: ProbeResults = field(default_factory=ProbeResults)
    host_ips: tuple[str, ...] = ()
    terminal: bool = False
    failure: PodFailure | None = None
    recursive_read_only: bool = False
    now: datetime = NOON
    status: PodStatus = field(default_factory=PodStatus)
    decision: StatusDecision | None = None

    @property
    def pod(self) -> Pod:
        return Pod.model_validate({"metadata": self.metadata, "spec": self.spec})

    def observed(self) -> ObservedPod:
        return ObservedPod(sandboxes=self.sandboxes, containers=order_containers(self.containers))

    def has(self, name: str, restart: int = 0, state: Any = "running", code: int = 0, **fields: Any) -> Self:
        """Let the runtime have instance `restart` of a container in this state."""
        self.containers = [c for c in self.containers if c.id != f"{name}-{restart}"]
        reason = {"exited": "Error" if code else "Completed"}.get(state, "")
        made = NOON + timedelta(minutes=restart)
        times = {"created_at": made}
        if state != "created":
            times["started_at"] = made + timedelta(milliseconds=1500)
        if state == "exited":
            times["finished_at"] = made + timedelta(seconds=30, microseconds=7)
        known = {"image": f"local/{name}:1", "image_ref": f"sha256:{name}", "sandbox_id": self.sandboxes[0].id}
        instance = {"id": f"{name}-{restart}", "name": name, "state": state, "exit_code": code, "reason": reason}
        self.containers.append(
            ObservedContainer.model_validate(instance | known | times | {"restart_count": restart} | fields)
        )
        return self

    def exited(self, name: str, restart: int = 0, code: int = 0, **fields: Any) -> Self:
        return self.has(name, restart, "exited", code, **fields)

    def without(self, *ids: str) -> Self:
        """Remove instances from the runtime."""
        assert set(ids) <= {c.id for c in self.containers}
        self.containers = [c for c in self.containers if c.id not in ids]
        return self

    def held(self, name: str, reason: WaitingReason | None) -> Self:
        self.waiting = {n: r for n, r in self.waiting.items() if n != name} | ({name: reason} if reason else {})
        return self

    def tell(self) -> Self:
        """Build the status, and record the exits."""
        self.now += timedelta(seconds=1)
        self.remember()
        observed = self.observed()
        self.decision = pod_status(
            StatusInputs(
                pod=self.pod,
                observed=observed,
                now=self.now,
                previous=self.status,
                runtime="containerd",
                host_ips=self.host_ips,
                waiting=self.waiting,
                exits=self.exits,
                probes=self.probes,
                terminal=self.terminal,
                failure=self.failure,
                recursive_read_only=self.recursive_read_only,
            )
        )
        self.status = self.decision.status
        return self

    def remember(self) -> Self:
        """Record the exits of containers that the runtime lists as exited."""
        for container in reversed(self.observed().containers):
            if container.exit is not None:
                self.exits[container.name] = container.exit
        return self

    def forget(self) -> Self:
        """Forget the recorded exits, as after a lost database."""
        self.exits = {}
        return self

    # --- what the status says

    def of(self, name: str) -> ContainerStatus:
        every = (
            *self.status.init_container_statuses,
            *self.status.container_statuses,
            *self.status.ephemeral_container_statuses,
        )
        return next(status for status in every if status.name == name)

    @property
    def phase(self) -> str | None:
        return self.status.phase

    def brief(self, name: str) -> tuple[str, str, int]:
        """Return state and last state in one word each, and the restart count."""
        status = self.of(name)
        return in_a_word(status.state), in_a_word(status.last_state), status.restart_count

    def condition(self, type_: str) -> PodCondition:
        return next(condition for condition in self.status.conditions if condition.type == type_)


def in_a_word(state: Any) -> str:
    if state.running:
        return "running"
    if state.terminated:
        return f"{state.terminated.reason} {state.terminated.exit_code}"
    if state.waiting:
        return state.waiting.reason or "waiting"
    return "-"


# --- the phase and what goes with it ----------------------------------------------------------------------------------


def test_a_pod_goes_from_pending_to_running() -> None:
    story = Story(ONE, sandboxes=()).tell()
    assert story.phase == "Pending"
    assert story.brief("web") == ("ContainerCreating", "-", 0)
    assert story.of("web").image == "local/web:1"
    assert story.condition("PodReadyToStartContainers").status == "False"
    assert story.condition("Initialized").status == "True"
    assert story.condition("Ready").message == "containers with unready status: [web]"

    story.sandboxes = (SANDBOX,)
    story.has("web").tell()
    assert story.phase == "Running"
    web = story.of("web")
    assert (web.ready, web.started) == (True, True)
    assert (web.container_id, web.image_id) == ("containerd://web-0", "sha256:web")
    assert {c.type: c.status for c in story.status.conditions} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }


def test_the_wire_form_of_a_running_pod_is_what_kubectl_shows() -> None:
    story = Story(ONE, host_ips=("192.0.2.7",)).has("web").tell()
    assert pod_to_wire(story.status) == {
        "observedGeneration": 1,
        "phase": "Running",
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-31T12:00:01Z",
            }
            for type_ in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "hostIP": "192.0.2.7",
        "hostIPs": [{"ip": "192.0.2.7"}],
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "startTime": "2026-01-31T12:00:01Z",
        "qosClass": "BestEffort",
        "containerStatuses": [
            {
                "name": "web",
                "state": {"running": {"startedAt": "2026-01-31T12:00:01Z"}},
                "ready": True,
                "restartCount": 0,
                "image": "local/web:1",
                "imageID": "sha256:web",
                "containerID": "containerd://web-0",
                "started": True,
                "resources": {},
            }
        ],
    }


def test_the_status_shows_the_user_of_a_container() -> None:
    user = ContainerUser(linux=LinuxContainerUser(uid=0, gid=0, supplemental_groups=(0, 10)))
    story = Story(ONE).has("web", user=user).tell()
    shown = pod_to_wire(story.status)["containerStatuses"][0]["user"]
    assert shown == {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [0, 10]}}


def test_a_user_of_a_container_may_have_any_id_that_linux_has() -> None:
    """kubernetes/kubernetes#138574: up to 2³²−1."""
    most = 2**32 - 1
    user = ContainerUser(linux=LinuxContainerUser(uid=most, gid=most, supplemental_groups=(most,)))
    shown = pod_to_wire(Story(ONE).has("web", user=user).tell().status)["containerStatuses"][0]["user"]
    assert shown == {"linux": {"uid": most, "gid": most, "supplementalGroups": [most]}}


def test_the_status_shows_the_total_requests_and_limits_of_the_pod() -> None:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "0.5"}}
    spec = {
        "overhead": {"memory": "64Mi"},
        "containers": [{"name": name, "image": "i", "resources": resources} for name in ("a", "b")],
    }
    status = Story(spec).tell().status
    assert status.allocated_resources == {"cpu": "200m", "memory": "192Mi"}
    assert status.resources is not None
    assert (status.resources.requests, status.resources.limits) == ({"cpu": "200m", "memory": "192Mi"}, {"cpu": "1"})

    of_the_pod = Story({**spec, "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}}).tell().status
    assert of_the_pod.allocated_resources == {"cpu": "2", "memory": "192Mi"}
    assert of_the_pod.resources is not None and of_the_pod.resources.limits == {"cpu": "1", "memory": "1088Mi"}

    rejected = Story(spec, failure=PodFailure(reason="OutOfcpu", rejected=True)).tell().status
    assert (rejected.allocated_resources, rejected.resources) == ({}, None)
    assert (rejected.conditions, rejected.host_ip, rejected.host_ips, rejected.pod_ips) == ((), "", (), ())
    assert Story(ONE).tell().status.resources is None


def test_a_terminal_phase_is_decided_at_once_and_shown_when_nothing_can_run() -> None:
    story = Story(ONE | {"restartPolicy": "Never"}).has("web").tell()
    story.exited("web", code=3).tell()
    assert story.decision is not None
    assert (story.decision.phase, story.phase) == ("Failed", "Running")
    assert story.condition("ContainersReady").reason == "PodFailed"

    story.terminal = True
    story.tell()
    assert story.phase == "Failed"


def test_a_running_container_delays_the_terminal_phase() -> None:
    story = Story(WITH_INIT | {"restartPolicy": "Never"}).exited("migrate").has("mesh").has("web").tell()
    story.failure = PodFailure(reason="DeadlineExceeded", message="too long")
    story.terminal = True
    story.tell()
    assert story.decision is not None
    assert (story.decision.phase, story.phase, story.status.reason) == ("Failed", "Running", "")
    story.exited("mesh", code=137).exited("web", code=143).tell()
    assert (story.phase, story.status.reason, story.status.message) == ("Failed", "DeadlineExceeded", "too long")


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_a_pod_never_leaves_its_terminal_phase(code: int, phase: str) -> None:
    story = Story(ONE | {"restartPolicy": "Never"}, terminal=True).exited("web", code=code).tell()
    assert story.phase == phase
    story.failure = PodFailure(reason="Evicted", message="no room")
    story.without("web-0").forget().tell()
    assert (story.phase, story.status.reason) == (phase, "")


def test_the_reason_of_a_phase_is_kept() -> None:
    story = Story(ONE, terminal=True, failure=PodFailure(reason="DeadlineExceeded", message="too long"))
    story.exited("web", code=143).tell()
    story.failure = None
    story.tell()
    assert (story.phase, story.status.reason) == ("Failed", "DeadlineExceeded")


def test_start_and_transition_times_are_set_once_in_whole_seconds() -> None:
    story = Story(ONE, now=NOON + timedelta(microseconds=123)).tell()
    first = story.status.start_time
    assert first == NOON + timedelta(seconds=1)
    story.has("web").tell().tell()
    assert story.status.start_time == first
    assert story.condition("PodScheduled").last_transition_time == first
    assert story.condition("Ready").last_transition_time == NOON + timedelta(seconds=2)


def test_the_observed_generation_is_that_of_the_evaluated_pod() -> None:
    story = Story(ONE).has("web").tell()
    story.metadata["generation"] = 4
    story.tell()
    assert story.status.observed_generation == 4
    assert {c.observed_generation for c in story.status.conditions} == {4}


def test_external_conditions_are_kept_and_read_by_readiness_gates() -> None:
    gate = "example.com/registered"
    story = Story(ONE | {"readinessGates": [{"conditionType": gate}]}).has("web").tell()
    assert story.condition("Ready").reason == "ReadinessGatesNotReady"
    theirs = PodCondition(type=gate, status="True", reason="Registered", last_transition_time=NOON)
    story.status = story.status.model_copy(update={"conditions": (*story.status.conditions, theirs)})
    story.tell()
    assert story.condition("Ready").status == "True"
    assert story.status.conditions[0] == theirs


OWN_GATES = {"readinessGates": [{"conditionType": "Initialized"}, {"conditionType": "PodReadyToStartContainers"}]}


def test_readiness_gates_may_name_conditions_set_by_the_node() -> None:
    assert Story(ONE | OWN_GATES).has("web").tell().condition("Ready").status == "True"
    lost = Story(ONE | OWN_GATES, sandboxes=(SANDBOX.model_copy(update={"state": "SANDBOX_NOTREADY"}),))
    assert lost.has("web").tell().condition("Ready").message == (
        'the status of pod readiness gate "PodReadyToStartContainers" is not "True", but False'
    )
    for late in ("ContainersReady", "PodScheduled", "Ready"):
        story = Story(ONE | {"readinessGates": [{"conditionType": late}]}).has("web").tell().tell()
        assert story.condition("Ready").message.endswith(f'"{late}" does not exist.')


def test_statuses_are_sorted_by_name_and_those_of_init_containers_by_spec_order() -> None:
    named = [{"name": name, "image": "x"} for name in ("zeta", "alpha")]
    debug = [{"name": name, "image": "x"} for name in ("trace", "look")]
    init = [{"name": name, "image": "x"} for name in ("second", "first")]
    story = Story({"containers": named, "ephemeralContainers": debug, "initContainers": init}).tell()
    assert [s.name for s in story.status.container_statuses] == ["alpha", "zeta"]
    assert [s.name for s in story.status.ephemeral_container_statuses] == ["look", "trace"]
    assert [s.name for s in story.status.init_container_statuses] == ["second", "first"]


# --- containers that end and run again --------------------------------------------------------------------------------


def test_a_crashing_container_waits_and_counts_its_restarts() -> None:
    story = Story(ONE).has("web").tell().exited("web", code=1).tell()
    assert story.brief("web") == ("Error 1", "-", 0)
    assert (story.of("web").ready, story.of("web").started) == (False, False)
    assert story.phase == "Running"

    story.held("web", CRASH_LOOP).tell()
    assert story.brief("web") == ("CrashLoopBackOff", "Error 1", 0)
    assert story.phase == "Running"
    ended = story.of("web").last_state.terminated
    assert ended is not None
    assert (ended.container_id, ended.finished_at) == ("containerd://web-0", NOON + timedelta(seconds=30))

    story.held("web", None).has("web", 1).tell()
    assert story.brief("web") == ("running", "Error 1", 1)


def test_the_last_state_survives_the_removal_of_the_dead_container() -> None:
    story = Story(ONE).has("web").tell().exited("web", code=1).held("web", CRASH_LOOP).tell()
    story.held("web", None).without("web-0").has("web", 1).tell()
    assert story.brief("web") == ("running", "Error 1", 1)
    story.tell()
    assert story.brief("web") == ("running", "Error 1", 1)


def test_an_exit_between_two_statuses_is_the_last_state() -> None:
    story = Story(ONE).has("web").tell()
    story.exited("web", code=9)
    story.remember()
    story.without("web-0").has("web", 1).tell()
    assert story.brief("web") == ("running", "Error 9", 1)


def test_a_removed_container_is_shown_as_it_ended() -> None:
    story = Story(ONE | {"restartPolicy": "Never"}).has("web").tell()
    story.exited("web", code=9)
    story.remember()
    story.without("web-0").tell()
    assert story.brief("web") == ("Error 9", "-", 0)
    assert story.of("web").container_id == "containerd://web-0"


def test_the_newest_exit_is_the_last_state() -> None:
    story = Story(ONE).exited("web", 0, code=1).exited("web", 1, code=2).has("web", 2).tell()
    assert story.brief("web") == ("running", "Error 2", 2)
    story.exited("web", 2, code=5).without("web-0", "web-1").tell()
    assert story.brief("web")[0] == "Error 5"


def test_a_running_container_that_vanished_has_exit_code_137_and_status_unknown() -> None:
    """Row 96: it is not taken for one that has never run."""
    story = Story(ONE).has("web").tell().without("web-0").tell()
    assert story.brief("web") == ("ContainerCreating", "ContainerStatusUnknown 137", 1)
    assert story.phase == "Running"
    story.has("web", 1).tell()
    assert story.brief("web") == ("running", "ContainerStatusUnknown 137", 1)


def test_a_vanished_container_of_a_deleted_pod_does_not_count_as_a_restart() -> None:
    story = Story(ONE).has("web").tell().without("web-0")
    story.metadata["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    story.tell()
    assert story.brief("web") == ("ContainerCreating", "ContainerStatusUnknown 137", 0)


@pytest.mark.parametrize("reason", ["Evicted", "DeadlineExceeded"])
def test_a_vanished_container_of_a_pod_that_has_failed_as_a_whole_does_not_count_as_a_restart(reason: str) -> None:
    """Row 96: no instance follows; the kubelet, which looks only for a deletion, counts one."""
    story = Story(ONE).has("web", 2).tell().without("web-2")
    story.failure = PodFailure(reason=reason, message="its message")
    story.tell()
    assert story.brief("web") == ("ContainerCreating", "ContainerStatusUnknown 137", 2)


def test_a_container_in_unknown_state_stays_terminated() -> None:
    story = Story(ONE).has("web").tell().has("web", state="unknown").tell()
    assert story.brief("web") == ("ContainerStatusUnknown 137", "-", 0)
    story.tell()
    assert story.brief("web") == ("ContainerStatusUnknown 137", "-", 0)
    assert story.has("web", 1).tell().brief("web") == ("running", "ContainerStatusUnknown 137", 1)


def test_a_container_that_was_in_unknown_state_has_not_restarted() -> None:
    """Its kill finds out how it ended: an init container that has completed does not run again."""
    story = Story(WITH_INIT).has("migrate").tell().has("migrate", state="unknown").tell()
    assert story.exited("migrate").tell().brief("migrate") == ("Completed 0", "-", 0)


def test_an_instance_that_was_only_created_counts_as_no_restart() -> None:
    story = Story(ONE).has("web", state="created").tell()
    assert story.brief("web") == ("ContainerCreating", "-", 0)
    story.exited("web", code=1).held("web", CRASH_LOOP).tell()
    story.held("web", None).has("web", 1, "created").tell()
    assert story.brief("web") == ("Error 1", "-", 0)
    assert story.without("web-1").tell().brief("web") == ("Error 1", "-", 0)
    assert story.has("web", 1).tell().brief("web") == ("running", "Error 1", 1)


def test_an_unknown_container_that_was_never_seen_running_waits() -> None:
    assert Story(ONE).has("web", state="unknown").tell().brief("web") == ("waiting", "-", 0)


@pytest.mark.parametrize(
    ("policy", "code", "state"),
    [("Always", 0, "CrashLoopBackOff"), ("OnFailure", 0, "Completed 0"), ("Never", 1, "Error 1")],
)
def test_a_waiting_reason_is_shown_only_if_the_container_will_run_again(policy: str, code: int, state: str) -> None:
    story = Story(ONE | {"restartPolicy": policy}).exited("web", code=code).held("web", CRASH_LOOP).tell()
    assert story.brief("web")[0] == state


def test_a_running_container_never_shows_a_stale_reason() -> None:
    assert Story(ONE).has("web").held("web", CRASH_LOOP).tell().brief("web")[0] == "running"


def test_a_failed_pull_is_the_waiting_reason() -> None:
    pull = WaitingReason(reason="ImagePullBackOff", message='Back-off pulling image "local/web:1"')
    story = Story(ONE).held("web", pull).tell()
    waiting = story.of("web").state.waiting
    assert waiting is not None
    assert (waiting.reason, waiting.message) == (pull.reason, pull.message)
    assert story.phase == "Pending"


def test_no_container_of_a_pod_being_deleted_is_waiting() -> None:
    story = Story(ONE).exited("web", code=1).held("web", CRASH_LOOP)
    story.metadata["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert story.tell().brief("web")[0] == "Error 1"


# --- init containers, sidecars, ephemeral containers ------------------------------------------------------------------


def test_status_of_init_containers_follows_their_order() -> None:
    story = Story(WITH_INIT).tell()
    assert story.brief("migrate") == story.brief("web") == ("PodInitializing", "-", 0)
    story.has("migrate").tell()
    assert story.condition("Initialized").message == "containers with incomplete status: [migrate mesh]"
    story.exited("migrate").tell()
    assert story.of("migrate").ready
    story.has("mesh").tell()
    assert (story.of("mesh").ready, story.of("mesh").started) == (True, True)
    assert story.condition("Initialized").status == "True"
    assert story.phase == "Pending"
    assert story.has("web").tell().phase == "Running"


def test_an_init_container_that_was_removed_stays_completed() -> None:
    story = Story(WITH_INIT).exited("migrate").tell().without("migrate-0").tell()
    assert story.brief("migrate") == ("Completed 0", "-", 0)
    assert story.of("migrate").ready


def test_a_missing_init_container_counts_as_completed_if_main_containers_exist() -> None:
    story = Story(WITH_INIT).has("mesh").has("web").tell()
    ended = story.of("migrate").state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.reason) == (0, "Completed")
    assert ended.message.startswith("Unable to get init container status")
    assert story.phase == "Running"


def test_only_the_newest_main_instance_shows_that_init_containers_completed() -> None:
    story = Story(WITH_INIT).exited("web", code=1).has("web", 1, "unknown").has("mesh").tell()
    assert story.brief("migrate")[0] == "PodInitializing"
    assert story.phase == "Pending"


def test_an_init_container_that_vanished_while_running_counts_as_completed() -> None:
    story = Story(WITH_INIT).has("migrate").tell().without("migrate-0").has("mesh").has("web").tell()
    assert story.brief("migrate") == ("Completed 0", "-", 0)


def test_a_completed_init_container_does_not_wait() -> None:
    story = Story(WITH_INIT).exited("migrate").held("migrate", CRASH_LOOP).tell()
    assert story.brief("migrate")[0] == "Completed 0"


def test_a_failing_init_container_waits() -> None:
    story = Story(WITH_INIT).exited("migrate", code=1).held("migrate", CRASH_LOOP).tell()
    assert story.brief("migrate") == ("CrashLoopBackOff", "Error 1", 0)


def test_a_crashed_sidecar_does_not_return_the_pod_to_pending() -> None:
    story = Story(WITH_INIT).exited("migrate").has("mesh").has("web").tell()
    story.exited("mesh", code=2).held("mesh", CRASH_LOOP).tell()
    assert (story.phase, story.condition("Initialized").status) == ("Running", "True")
    assert story.condition("Ready").message == "containers with unready status: [mesh]"


def test_ephemeral_containers_appear_in_the_status_and_affect_nothing_else() -> None:
    """Row 55: neither phase nor readiness."""
    story = Story(ONE).has("web").tell()
    phase, conditions = story.phase, story.status.conditions
    story.spec = ONE | {"ephemeralContainers": [{"name": "debug", "image": "local/busybox:1"}]}
    story.has("debug").tell()
    assert story.brief("debug")[0] == "running"
    assert story.of("debug").started is None
    story.exited("debug", code=1).held("debug", CRASH_LOOP).tell()
    assert story.brief("debug")[0] == "Error 1"
    assert (story.phase, story.status.conditions) == (phase, conditions)


# --- probes -----------------------------------------------------------------------------------------------------------

PROBED = {"containers": [{"name": "web", "image": "x", "startupProbe": {}, "readinessProbe": {}}]}


def test_probe_results_set_started_and_ready() -> None:
    story = Story(PROBED).has("web").tell()
    assert (story.of("web").started, story.of("web").ready) == (False, False)
    story.probes = ProbeResults(startup={"web-0": "success"})
    story.tell()
    assert (story.of("web").started, story.of("web").ready) == (True, False)
    story.probes = ProbeResults(startup={"web-0": "success"}, readiness={"web-0": "success"})
    story.tell()
    assert (story.of("web").started, story.of("web").ready) == (True, True)
    story.probes = ProbeResults(startup={"web-0": "success"}, readiness={"web-0": "failure"})
    assert not story.tell().of("web").ready


def test_a_restarted_prober_changes_no_status() -> None:
    story = Story(PROBED, probes=ProbeResults(startup={"web-0": "success"}, readiness={"web-0": "success"}))
    story.has("web").tell()
    story.probes = ProbeResults()
    story.tell()
    assert (story.of("web").started, story.of("web").ready) == (True, True)


def test_a_new_instance_is_not_ready_until_probed() -> None:
    story = Story(PROBED, probes=ProbeResults(startup={"web-0": "success"}, readiness={"web-0": "success"}))
    story.has("web").tell().exited("web", code=1).has("web", 1).tell()
    assert (story.of("web").started, story.of("web").ready) == (False, False)


# --- RestartAllContainers ---------------------------------------------------------------------------------------------

RESTARTS_ALL = {
    "restartPolicy": "Never",
    "initContainers": [{"name": "migrate", "image": "x"}],
    "containers": [
        {
            "name": "web",
            "image": "x",
            "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}],
        },
        {"name": "log", "image": "x"},
    ],
}


def test_statuses_through_a_restart_of_all_containers() -> None:
    story = Story(RESTARTS_ALL).exited("migrate").has("web").has("log").tell()
    assert story.condition("AllContainersRestarting").status == "False"

    story.exited("web", code=42).tell()
    restarting = story.condition("AllContainersRestarting")
    assert (restarting.status, restarting.reason) == ("True", "RestartAllContainersStarted")
    assert story.phase == "Running"

    story.exited("log", code=137).tell()
    story.without("migrate-0", "web-0", "log-0").tell()
    assert story.condition("AllContainersRestarting").status == "False"
    for name in ("migrate", "web", "log"):
        assert story.brief(name) == ("RestartingAllContainers", "RestartingAllContainers 137", 1)
    assert story.condition("Initialized").status == "True"
    assert story.decision is not None
    assert story.decision.phase == "Running"

    story.has("migrate", 1).tell()
    assert story.brief("migrate") == ("running", "RestartingAllContainers 137", 1)
    assert story.brief("web") == ("PodInitializing", "RestartingAllContainers 137", 1)

    story.exited("migrate", 1).has("web", 1).has("log", 1).tell()
    assert story.brief("web") == ("running", "RestartingAllContainers 137", 1)
    assert story.phase == "Running"


def test_an_exited_container_keeps_its_identity_when_removed_in_a_restart_of_all() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    migrate, web = WITH_INIT["initContainers"][0], WITH_INIT["containers"]
    story = Story({"initContainers": [migrate, SIDECAR | {"restartPolicyRules": rules}], "containers": web})
    story.exited("migrate").exited("mesh", code=42).tell().without("migrate-0").tell()
    assert story.brief("migrate") == ("RestartingAllContainers", "RestartingAllContainers 137", 1)
    removed = story.of("migrate")
    assert (removed.ready, removed.container_id, removed.image_id) == (True, "containerd://migrate-0", "sha256:migrate")
    assert story.condition("Initialized").message == "containers with incomplete status: [mesh]"


def test_listings_between_the_removals_of_a_restart_of_all_count_it_once() -> None:
    """Removals take time: each listing in between shows fewer instances, and the one that asked for it goes last."""
    story = Story(RESTARTS_ALL).exited("migrate").exited("web", code=42).exited("log", code=137).tell()
    for gone in ((), ("log-0",), (), ("migrate-0",), (), (), ("web-0",)):
        story.without(*gone).tell()
    for name in ("migrate", "web", "log"):
        assert story.brief(name) == ("RestartingAllContainers", "RestartingAllContainers 137", 1)


def test_an_exit_after_a_restart_of_all_is_shown_as_usual() -> None:
    story = Story(RESTARTS_ALL).exited("migrate").exited("web", code=42).has("log").tell()
    story.without("migrate-0", "web-0", "log-0").tell()
    story.exited("migrate", 1).exited("web", 1, code=7).has("log", 1).tell()
    assert story.brief("web")[0] == "Error 7"
    assert story.exited("log", 1).tell().decision == StatusDecision(status=story.status, phase="Failed")


def test_ephemeral_containers_survive_a_restart_of_all() -> None:
    story = Story(RESTARTS_ALL | {"ephemeralContainers": [{"name": "debug", "image": "x"}]})
    story.exited("migrate").has("web").has("log").exited("debug").tell()
    story.exited("web", code=42).tell().without("migrate-0", "web-0", "log-0", "debug-0").tell()
    assert story.brief("debug") == ("Completed 0", "-", 0)


# --- addresses --------------------------------------------------------------------------------------------------------


def test_a_pod_keeps_its_address_when_its_sandbox_is_gone() -> None:
    story = Story(ONE).has("web").tell()
    story.sandboxes = (SANDBOX.model_copy(update={"state": "SANDBOX_NOTREADY", "ip": ""}),)
    assert story.tell().status.pod_ip == "10.0.0.1"
    story.sandboxes = ()
    assert story.tell().status.pod_ip == "10.0.0.1"


def test_a_new_sandbox_brings_its_own_address() -> None:
    story = Story(ONE).has("web").tell()
    newer = ObservedSandbox(id="newer", attempt=1, state="SANDBOX_READY", ip="10.0.0.2")
    story.sandboxes = (newer, SANDBOX.model_copy(update={"state": "SANDBOX_NOTREADY"}))
    assert story.tell().status.pod_ip == "10.0.0.2"


@pytest.mark.parametrize(
    ("host", "first"), [((), "10.0.0.1"), (("192.0.2.7",), "10.0.0.1"), (("2001:db8::7",), "fd00::1")]
)
def test_pod_ips_has_one_address_per_family_starting_with_the_nodes_family(host: tuple[str, ...], first: str) -> None:
    """Row 93: podIPs."""
    both = SANDBOX.model_copy(update={"additional_ips": ("fd00::1", "10.0.0.99")})
    status = Story(ONE, sandboxes=(both,), host_ips=host).tell().status
    assert status.pod_ip == first
    assert {address.ip for address in status.pod_ips} == {"10.0.0.1", "fd00::1"}


def test_additional_addresses_are_used_without_a_primary_one() -> None:
    story = Story(ONE, sandboxes=(SANDBOX.model_copy(update={"ip": "", "additional_ips": ("fd00::1",)}),)).tell()
    assert [address.ip for address in story.status.pod_ips] == ["fd00::1"]


def test_one_invalid_address_discards_all_addresses() -> None:
    wrong = SANDBOX.model_copy(update={"additional_ips": ("fd00::/64",)})
    assert Story(ONE, sandboxes=(wrong,)).tell().status.pod_ips == ()


def test_a_host_network_pod_has_the_nodes_addresses() -> None:
    host = SANDBOX.model_copy(update={"network_mode": "NODE", "ip": ""})
    story = Story(ONE | {"hostNetwork": True}, sandboxes=(host,)).tell()
    assert story.status.pod_ips == ()
    story.host_ips = ("192.0.2.7",)
    assert story.tell().status.pod_ip == "192.0.2.7"
    story.host_ips = ("192.0.2.8", "2001:db8::7")
    assert [address.ip for address in story.tell().status.pod_ips] == ["192.0.2.7", "2001:db8::7"]


# --- details ----------------------------------------------------------------------------------------------------------


def test_termination_messages_of_a_pod_share_12_kib() -> None:
    story = Story(WITH_INIT).exited("web", code=1, message="ä" * 4000).tell()
    ended = story.of("web").state.terminated
    assert ended is not None
    assert ended.message == "ä" * 2048


def test_the_status_shows_the_mounts_and_resources_in_force() -> None:
    web = {
        "name": "web",
        "image": "x",
        "resources": {"requests": {"cpu": "100m"}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "conf", "mountPath": "/conf", "readOnly": True, "recursiveReadOnly": "IfPossible"},
        ],
    }
    status = pod_to_wire(Story({"containers": [web]}).has("web").tell().of("web"))
    assert status["volumeMounts"] == [
        {"name": "data", "mountPath": "/data"},
        {"name": "conf", "mountPath": "/conf", "readOnly": True, "recursiveReadOnly": "Disabled"},
    ]
    assert status["allocatedResources"] == {"cpu": "100m"}
    assert status["resources"] == {"requests": {"cpu": "100m"}}


@pytest.mark.parametrize(
    ("asked", "supported", "shown"),
    [
        (None, True, "Disabled"),
        ("Disabled", True, "Disabled"),
        ("IfPossible", True, "Enabled"),
        ("IfPossible", False, "Disabled"),
        ("Enabled", True, "Enabled"),
        ("Enabled", False, "Disabled"),
    ],
)
def test_a_mount_is_recursively_read_only_if_requested_and_supported(
    asked: str | None, supported: bool, shown: str
) -> None:
    """kubelet_pods.go, resolveRecursiveReadOnly."""
    mount = {"name": "conf", "mountPath": "/conf", "readOnly": True} | ({"recursiveReadOnly": asked} if asked else {})
    story = Story({"containers": [{"name": "web", "image": "x", "volumeMounts": [mount]}]})
    story.recursive_read_only = supported
    assert story.has("web").tell().of("web").volume_mounts[0].recursive_read_only == shown


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_pod_stopped_before_it_ran_has_failed() -> None:
    story = Story(WITH_INIT, terminal=True).tell()
    last = terminated_pod_status(story.pod, story.status, now=story.now)
    assert last.phase == "Failed"
    migrate, mesh = last.init_container_statuses
    assert in_a_word(migrate.state) == "ContainerStatusUnknown 137"
    assert in_a_word(mesh.state) == "PodInitializing"
    assert in_a_word(last.container_statuses[0].state) == "PodInitializing"


def test_a_container_without_an_observed_exit_counts_as_failed() -> None:
    story = Story(ONE).has("web").tell()
    last = terminated_pod_status(story.pod, story.status, now=NOON + timedelta(hours=1))
    assert last.phase == "Failed"
    assert in_a_word(last.container_statuses[0].state) == "ContainerStatusUnknown 137"
    ready = {c.type: (c.status, c.reason) for c in last.conditions if c.type.endswith("Ready")}
    assert ready == {"Ready": ("False", "PodFailed"), "ContainersReady": ("False", "PodFailed")}
    assert {c.last_transition_time for c in last.conditions if c.type == "Ready"} == {NOON + timedelta(hours=1)}
    assert terminated_pod_status(story.pod, last, now=NOON + timedelta(hours=2)) == last


def test_ready_conditions_of_a_terminated_pod_give_its_phase_as_the_reason() -> None:
    gated = Story(ONE | {"readinessGates": [{"conditionType": "example.com/registered"}]}).has("web").tell()
    assert gated.condition("Ready").reason == "ReadinessGatesNotReady"
    last = terminated_pod_status(gated.pod, gated.status, now=gated.now)
    ready = {c.type: (c.status, c.reason, c.message) for c in last.conditions if c.type.endswith("Ready")}
    assert ready == {"Ready": ("False", "PodFailed", ""), "ContainersReady": ("False", "PodFailed", "")}
    waiting = Story(ONE).tell()
    last = terminated_pod_status(waiting.pod, waiting.status, now=waiting.now)
    assert {c.reason for c in last.conditions if c.type.endswith("Ready")} == {"ContainersNotReady"}


def test_the_status_of_a_succeeded_pod_is_final() -> None:
    story = Story(ONE | {"restartPolicy": "Never"}, terminal=True).exited("web").tell()
    assert terminated_pod_status(story.pod, story.status, now=story.now) == story.status


def test_a_static_pod_keeps_its_phase() -> None:
    story = Story(ONE, terminal=True).exited("web", code=143)
    story.metadata["annotations"] = {"kubernetes.io/config.source": "file"}
    story.tell()
    assert terminated_pod_status(story.pod, story.status, now=story.now).phase == "Running"


# --- whatever happens -------------------------------------------------------------------------------------------------

moments = st.tuples(
    st.sampled_from(["created", "running", "exited", "unknown", "removed"]), st.sampled_from([0, 1, 42]), st.booleans()
)


@given(st.sampled_from(["Always", "OnFailure", "Never"]), st.lists(moments, max_size=12))
def test_phase_start_time_and_restart_counts_never_go_back(policy: str, history: list[Any]) -> None:
    story = Story(ONE | {"restartPolicy": policy})
    restart, rank = 0, {"created": 0, "running": 1, "unknown": 1, "exited": 2}
    previous = story.status
    for state, code, terminal in history:
        seen = story.containers[-1].state if story.containers else "created"
        if state == "removed":
            story.containers = []
        else:
            if story.containers and rank[state] < rank[seen]:
                if policy == "Never" or (policy == "OnFailure" and story.containers[-1].exit_code == 0):
                    continue
                restart = max(story.containers[-1].restart_count, story.of("web").restart_count - 1) + 1
            story.has("web", restart, state, code if state == "exited" else 0)
        story.terminal = story.terminal or terminal
        observed = story.observed()
        story.remember()
        story.now += timedelta(seconds=1)
        status = pod_status(
            StatusInputs(
                pod=story.pod,
                observed=observed,
                now=story.now,
                previous=story.status,
                exits=story.exits,
                terminal=story.terminal,
            )
        ).status
        if previous.phase in ("Succeeded", "Failed"):
            assert status.phase == previous.phase
        if previous.start_time:
            assert status.start_time == previous.start_time
        if previous.container_statuses:
            assert status.container_statuses[0].restart_count >= previous.container_statuses[0].restart_count
        if status.phase in ("Succeeded", "Failed"):
            assert all(c.status == "False" for c in status.conditions if c.type in ("Ready", "ContainersReady"))
        assert PodStatus.model_validate(pod_to_wire(status)) == PodStatus.model_validate(status.model_dump())
        story.status = previous = status
