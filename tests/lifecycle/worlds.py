"""Hypothesis strategies for any pod in any state, and a model of a runtime in which actions are carried out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from syncpod.lifecycle.actions import PodActions
from syncpod.lifecycle.compute import compute_pod_actions
from syncpod.lifecycle.kubelet_version import FOLLOWED
from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.pod_resources import PodResources
from syncpod.lifecycle.restart import is_sidecar
from syncpod.lifecycle.restart_all import should_restart_all
from syncpod.pod import Container, Pod, ResourceRequirements, container_hash

RESULTS = ("success", "failure", "unknown")


@dataclass(frozen=True)
class World:
    """The whole input of a decision."""

    pod: Pod
    observed: ObservedPod
    liveness: dict[str, str] = field(default_factory=dict)
    startup: dict[str, str] = field(default_factory=dict)
    actuated: PodResources = field(default_factory=PodResources)
    restart_all: bool = False

    def decide(self) -> PodActions:
        return compute_pod_actions(
            self.pod,
            self.observed,
            liveness=self.liveness,
            startup=self.startup,
            actuated=self.actuated,
            restart_all=self.restart_all,
            kubelet=FOLLOWED,
        )


quantities = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "0.5", "1"]),
        "memory": st.sampled_from(["0", "64Mi", "1Gi", "129e6"]),
    },
)
resources = st.fixed_dictionaries({}, optional={"limits": quantities, "requests": quantities})
rules = st.lists(
    st.fixed_dictionaries(
        {
            "action": st.sampled_from(["Restart", "RestartAllContainers"]),
            "exitCodes": st.fixed_dictionaries(
                {
                    "operator": st.sampled_from(["In", "NotIn"]),
                    "values": st.lists(st.sampled_from([0, 1, 42]), max_size=2),
                }
            ),
        }
    ),
    max_size=2,
)
resize_policies = st.lists(
    st.fixed_dictionaries(
        {
            "resourceName": st.sampled_from(["cpu", "memory"]),
            "restartPolicy": st.sampled_from(["NotRequired", "RestartContainer"]),
        }
    ),
    max_size=2,
    unique_by=lambda policy: policy["resourceName"],
)


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": draw(st.sampled_from(["one", "two"]))}
    policy = draw(st.sampled_from([None, None, "Always", "OnFailure", "Never"]))
    if policy:
        container.update(restartPolicy=policy, restartPolicyRules=draw(rules))
    container.update(resources=draw(resources), resizePolicy=draw(resize_policies))
    for probe in ("livenessProbe", "startupProbe"):
        if draw(st.booleans()):
            container[probe] = {}
    return container


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    def listed(kind: str, least: int, most: int) -> list[dict[str, Any]]:
        return [draw(containers(f"{kind}{index}")) for index in range(draw(st.integers(least, most)))]

    spec: dict[str, Any] = {
        "initContainers": listed("init", 0, 3),
        "containers": listed("main", 1, 3),
        "ephemeralContainers": [{"name": f"debug{i}", "image": "one"} for i in range(draw(st.integers(0, 2)))],
        "restartPolicy": draw(st.sampled_from([None, "Always", "OnFailure", "Never"])),
        "hostNetwork": draw(st.booleans()),
    }
    if draw(st.booleans()):
        spec["resources"] = draw(resources)
    metadata = {"name": "pod", "deletionTimestamp": draw(st.sampled_from([None, None, None, "2026-01-31T12:00:00Z"]))}
    return Pod.model_validate({"metadata": metadata, "spec": spec})


@st.composite
def listings(draw: st.DrawFn, pod: Pod) -> ObservedPod:
    sandboxes = [
        ObservedSandbox(
            id=f"sandbox{attempt}",
            attempt=attempt,
            state=draw(st.sampled_from(["SANDBOX_READY", "SANDBOX_READY", "SANDBOX_NOTREADY"])),
            network_mode=draw(st.sampled_from(["POD", "NODE"] if pod.spec.host_network else ["POD", "POD", "NODE"])),
            ip=draw(st.sampled_from(["10.0.0.1", "10.0.0.1", "", None])),
        )
        for attempt in reversed(range(draw(st.sampled_from([0, 1, 1, 1, 2]))))
    ]
    found = []
    for container in (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers):
        for instance in reversed(range(draw(st.integers(0, 2)))):
            state = draw(st.sampled_from(["created", "running", "running", "exited", "exited", "unknown"]))
            found.append(
                ObservedContainer(
                    id=f"{container.name}-{instance}",
                    name=container.name,
                    state=state,
                    exit_code=draw(st.sampled_from([0, 1, 42])) if state == "exited" else 0,
                    reason=draw(st.sampled_from(["", "OOMKilled"])),
                    hash=draw(st.sampled_from([container_hash(container.name, container.image), "changed"])),
                    restart_count=instance,
                    sandbox_id=_sandbox_of(draw, sandboxes, state),
                )
            )
    return ObservedPod(uid="uid", sandboxes=tuple(sandboxes), containers=tuple(found))


def _sandbox_of(draw: st.DrawFn, sandboxes: list[ObservedSandbox], state: str) -> str:
    """The sandbox of an instance: only ended instances are in an earlier sandbox than the newest."""
    if not sandboxes:
        return "sandbox0"
    return draw(st.sampled_from(sandboxes)).id if state == "exited" else sandboxes[0].id


@st.composite
def worlds(draw: st.DrawFn) -> World:
    pod = draw(pods())
    observed = draw(listings(pod))
    ids = [container.id for container in observed.containers]
    results = st.dictionaries(st.sampled_from(ids), st.sampled_from(RESULTS)) if ids else st.just({})
    names = [container.name for container in (*pod.spec.init_containers, *pod.spec.containers)]
    actuated = {
        "containers": draw(st.dictionaries(st.sampled_from(names), resources)),
        "pod": draw(st.none() | resources),
    }
    return World(
        pod=pod,
        observed=observed,
        liveness=draw(results),
        startup=draw(results),
        actuated=PodResources.model_validate(actuated),
        restart_all=draw(st.sampled_from([False, False, False, True])),
    )


class Runtime:
    """A runtime in which every call works at once, every probe succeeds and no container fails.

    Plain init containers complete when time passes; everything else runs until it is stopped.
    """

    def __init__(self, world: World) -> None:
        self.pod = world.pod
        self.sandboxes = list(world.observed.sandboxes)
        self.containers = list(world.observed.containers)
        self.liveness = dict(world.liveness)
        self.startup = dict(world.startup)
        self.actuated = world.actuated
        self.restarting_all = False
        self.made = 0

    def world(self) -> World:
        observed = ObservedPod(uid="uid", sandboxes=tuple(self.sandboxes), containers=tuple(self.containers))
        self.restarting_all = should_restart_all(self.pod.spec, observed, in_progress=self.restarting_all)
        return World(self.pod, observed, self.liveness, self.startup, self.actuated, self.restarting_all)

    def carry_out(self, actions: PodActions) -> None:
        """Carry out the decided actions in the kubelet's order."""
        spec = self.pod.spec
        if actions.kill_pod:
            for container in self.containers:
                self._stop(container.id)
            self.sandboxes = [s.model_copy(update={"state": "SANDBOX_NOTREADY"}) for s in self.sandboxes]
            if actions.create_sandbox:
                init = {container.name for container in spec.init_containers}
                self.containers = [container for container in self.containers if container.name not in init]
        for kill in actions.containers_to_kill:
            self._stop(kill.id)
        for reset in actions.containers_to_reset:
            if actions.kill_pod:
                break
            self.containers = [container for container in self.containers if container.id != reset.id]
        if actions.create_sandbox:
            sandbox = ObservedSandbox(
                id=f"new{actions.attempt}",
                attempt=actions.attempt,
                state="SANDBOX_READY",
                network_mode="NODE" if spec.host_network else "POD",
                ip="" if spec.host_network else "10.0.0.9",
            )
            self.sandboxes.insert(0, sandbox)
        if actions.kill_pod and not actions.create_sandbox:
            return
        for index in actions.ephemeral_containers_to_start:
            self._start(spec.ephemeral_containers[index])
        for index in actions.init_containers_to_start:
            self._start(spec.init_containers[index])
        for update in (*actions.containers_to_update.memory, *actions.containers_to_update.cpu):
            wanted = next(c for c in (*spec.init_containers, *spec.containers) if c.name == update.name)
            self._apply(wanted)
        if actions.update_pod_level_resources:
            self.actuated = self.actuated.model_copy(update={"pod": spec.resources or ResourceRequirements()})
        for index in actions.containers_to_start:
            self._start(spec.containers[index])

    def pass_time(self) -> None:
        """Let probes succeed and running plain init containers complete."""
        plain = {container.name for container in self.pod.spec.init_containers if not is_sidecar(container)}
        for position, container in enumerate(self.containers):
            if container.state != "running":
                continue
            self.liveness[container.id] = self.startup[container.id] = "success"
            if container.name in plain:
                self.containers[position] = container.model_copy(update={"state": "exited", "reason": "Completed"})

    def running(self) -> list[ObservedContainer]:
        return [container for container in self.containers if container.state in ("running", "unknown")]

    def _start(self, container: Container) -> None:
        self.made += 1
        self._apply(container)
        started = ObservedContainer(
            id=f"{container.name}-made{self.made}",
            name=container.name,
            state="running",
            hash=container_hash(container.name, container.image),
            sandbox_id=self.sandboxes[0].id,
        )
        self.containers.insert(0, started)

    def _apply(self, container: Container) -> None:
        applied = {**self.actuated.containers, container.name: container.resources}
        self.actuated = self.actuated.model_copy(update={"containers": applied})

    def _stop(self, id_: str) -> None:
        for position, container in enumerate(self.containers):
            if container.id == id_ and container.state != "exited":
                stopped = {"state": "exited", "exit_code": 137, "reason": "Error"}
                self.containers[position] = container.model_copy(update=stopped)


def with_reordered_mappings(world: World) -> World:
    """Return the same world with the items of every mapping in reverse order."""
    applied = dict(reversed(world.actuated.containers.items()))
    return replace(
        world,
        liveness=dict(reversed(world.liveness.items())),
        startup=dict(reversed(world.startup.items())),
        actuated=world.actuated.model_copy(update={"containers": applied}),
    )
