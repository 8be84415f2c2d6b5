"""Builds a pod and its state in the runtime step by step, as input of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from syncpod.lifecycle.actions import ContainerToKill, PodActions
from syncpod.lifecycle.compute import compute_pod_actions
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.kubelet_version import FOLLOWED, KubeletVersion
from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.pod_resources import PodResources
from syncpod.pod import Pod, container_hash

SANDBOX = ObservedSandbox(id="sandbox", attempt=0, state="SANDBOX_READY", ip="10.0.0.1")

NO_ACTION = PodActions()
"""The actions of a sync that changes nothing."""


def does_nothing(actions: PodActions) -> bool:
    """Whether there is nothing to do; the actions may name the existing sandbox."""
    return replace(actions, sandbox_id="", attempt=0) == NO_ACTION


@dataclass
class Situation:
    """One pod at one moment. Every method changes the situation and returns it, so that calls can be chained."""

    spec: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=lambda: {"name": "foo", "namespace": "new", "uid": "12345678"})
    sandboxes: list[ObservedSandbox] = field(default_factory=lambda: [SANDBOX])
    containers: list[ObservedContainer] = field(default_factory=list)
    liveness: dict[str, str] = field(default_factory=dict)
    startup: dict[str, str] = field(default_factory=dict)
    actuated: dict[str, Any] = field(default_factory=dict)
    restart_all: bool = False
    kubelet: KubeletVersion = FOLLOWED

    # --- what is wanted

    def policy(self, policy: str) -> Self:
        self.spec["restartPolicy"] = policy
        return self

    def of(self, name: str, **fields: Any) -> Self:
        """Set fields (in the API's spelling) of one container of any kind."""
        self._wanted(name).update(fields)
        return self

    def with_spec(self, **fields: Any) -> Self:
        self.spec.update(fields)
        return self

    def from_source(self, source: str) -> Self:
        self.metadata["annotations"] = {"kubernetes.io/config.source": source}
        return self

    def deleted(self) -> Self:
        self.metadata.update(deletionTimestamp="2026-01-31T12:00:00Z", deletionGracePeriodSeconds=30)
        return self

    def rule(self, name: str, action: str, operator: str, *codes: int, policy: str = "Never") -> Self:
        """Add a restart rule to a container, which also gets a restart policy of its own."""
        container = self._wanted(name)
        container["restartPolicy"] = policy
        exit_codes = {"operator": operator, "values": list(codes)}
        container.setdefault("restartPolicyRules", []).append({"action": action, "exitCodes": exit_codes})
        return self

    # --- what there is

    def state(self, name: str, state: ContainerRuntimeState, exit_code: int = 0, **fields: Any) -> Self:
        """Put a container's newest instance in a state; make the instance if there is none."""
        found = next((i for i, status in enumerate(self.containers) if status.name == name), None)
        if found is None:
            wanted = self._wanted(name)
            hash_ = container_hash(name, wanted.get("image", ""))
            made = ObservedContainer(id=f"{name}-id", name=name, hash=hash_, sandbox_id=self._newest_sandbox)
            self.containers.insert(0, made)
            found = 0
        update = {"state": state, "exit_code": exit_code, **fields}
        self.containers[found] = self.containers[found].model_copy(update=update)
        return self

    def exited(self, *names: str, code: int = 0, **fields: Any) -> Self:
        for name in names:
            self.state(name, "exited", code, **fields)
        return self

    def running(self, *names: str) -> Self:
        for name in names:
            self.state(name, "running")
        return self

    def earlier(self, name: str, id: str, state: ContainerRuntimeState, exit_code: int = 0) -> Self:
        """Add an older instance of a container in the same sandbox."""
        ended = ObservedContainer(id=id, name=name, state=state, exit_code=exit_code, sandbox_id=self._newest_sandbox)
        self.containers.append(ended)
        return self

    def gone(self, *names: str) -> Self:
        """Remove every instance of these containers from the runtime; without names, of all containers."""
        self.containers = [status for status in self.containers if names and status.name not in names]
        return self

    def redefined(self, *names: str) -> Self:
        for name in names:
            newest = next(i for i, status in enumerate(self.containers) if status.name == name)
            self.containers[newest] = self.containers[newest].model_copy(update={"hash": "0"})
        return self

    def sandbox(self, **fields: Any) -> Self:
        self.sandboxes[0] = self.sandboxes[0].model_copy(update=fields)
        return self

    def without_sandbox(self) -> Self:
        self.sandboxes = []
        return self

    def another_sandbox(self, **fields: Any) -> Self:
        """Add a newer sandbox in front of the existing ones."""
        self.sandboxes.insert(0, SANDBOX.model_copy(update={"id": "newer", "attempt": 1, **fields}))
        return self

    # --- what probes and records say

    def live(self, name: str, result: str) -> Self:
        self.liveness[self.id(name)] = result
        return self

    def started(self, name: str, result: str = "success") -> Self:
        self.startup[self.id(name)] = result
        return self

    def applied(self, name: str, **resources: Any) -> Self:
        self.actuated.setdefault("containers", {})[name] = resources
        return self

    def applied_to_pod(self, **resources: Any) -> Self:
        self.actuated["pod"] = resources
        return self

    def restarting_all(self) -> Self:
        self.restart_all = True
        return self

    def under(self, kubelet: KubeletVersion) -> Self:
        """Use the decisions of an earlier kubelet."""
        self.kubelet = kubelet
        return self

    # --- the decision

    @property
    def pod(self) -> Pod:
        return Pod.model_validate({"metadata": self.metadata, "spec": self.spec})

    @property
    def observed(self) -> ObservedPod:
        return ObservedPod(uid="12345678", sandboxes=tuple(self.sandboxes), containers=tuple(self.containers))

    def decide(self) -> PodActions:
        return compute_pod_actions(
            self.pod,
            self.observed,
            liveness=self.liveness,
            startup=self.startup,
            actuated=PodResources.model_validate(self.actuated),
            restart_all=self.restart_all,
            kubelet=self.kubelet,
        )

    def id(self, name: str) -> str:
        return next(status.id for status in self.containers if status.name == name)

    @property
    def _newest_sandbox(self) -> str:
        return self.sandboxes[0].id if self.sandboxes else ""

    def _wanted(self, name: str) -> dict[str, Any]:
        kinds = ("initContainers", "containers", "ephemeralContainers")
        listed = (container for kind in kinds for container in self.spec.get(kind, []))
        found: dict[str, Any] = next(container for container in listed if container["name"] == name)
        return found


def three_containers() -> Situation:
    """Return a pod of three main containers, all running."""
    situation = Situation(spec={"restartPolicy": "Always", "containers": _containers("foo1", "foo2", "foo3")})
    return situation.running("foo1", "foo2", "foo3")


def three_init_containers() -> Situation:
    """Return a pod of three init and three main containers, of which the init containers have just completed."""
    situation = Situation(
        spec={
            "restartPolicy": "Always",
            "initContainers": _containers("init1", "init2", "init3"),
            "containers": _containers("foo1", "foo2", "foo3"),
        }
    )
    return situation.exited("init1", "init2", "init3")


def three_sidecars() -> Situation:
    """Return a pod of three sidecars and three main containers, all running."""
    situation = three_init_containers().running("init1", "init2", "init3", "foo1", "foo2", "foo3")
    for name in ("init1", "init2", "init3"):
        situation.of(name, restartPolicy="Always")
    return situation


def one_debugger() -> Situation:
    """Return a pod of three main containers, all running, and an ephemeral container that was never made."""
    return three_containers().with_spec(ephemeralContainers=_containers("debug"))


def act(**fields: Any) -> PodActions:
    """Return actions in the existing sandbox."""
    return replace(NO_ACTION, **{"sandbox_id": "sandbox", "attempt": 0, **fields})


def anew(attempt: int = 1, sandbox_id: str = "sandbox", **fields: Any) -> PodActions:
    """Return actions that begin by making a new sandbox."""
    return act(kill_pod=True, create_sandbox=True, sandbox_id=sandbox_id, attempt=attempt, **fields)


def kill(name: str, message: str, cause: KillCause) -> ContainerToKill:
    """Return the kill of a container's only instance."""
    return ContainerToKill(id=f"{name}-id", name=name, message=message, cause=cause)


def _containers(*names: str) -> list[Mapping[str, Any]]:
    return [{"name": name, "image": "busybox"} for name in names]
