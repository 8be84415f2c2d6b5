"""Checks that final ends stay final, and that containers which were ended for a restart are restarted.

The simulation keeps its own records: how instances really ended, and which ones the workflow ended for a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.simulator.runtime import Container
from tests.simulator.violation import Violation

PROBES = ("LivenessProbe", "StartupProbe")
RULED = 42
"""The exit code for which the rules of drawn pods restart a container."""
TERMINAL = ("Succeeded", "Failed")


class Recorded:
    """The facts of one simulation that must survive losses in the runtime; methods raise Violation."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        """Take the desired pod's manifest, which the simulation changes with the pod."""
        self.manifest = manifest
        self._to_follow: set[str] = set()
        """The ids of instances that were ended only for a restart."""

    # --- what the workflow asks for -----------------------------------------------------------------------------------

    def killed_alone(self, request: dict[str, Any]) -> None:
        """Record the kill of one container: it is restarted, unless a probe failed and its policy is Never."""
        name = request["target"]["name"]
        if request["reason"] not in PROBES or self._policy(name) != "Never":
            self._to_follow.add(request["target"]["id"])

    def killed_for_sandbox(self, alive: Sequence[Container]) -> None:
        """Record the kill of a pod that gets another sandbox: its containers are restarted if the policy permits.

        As kuberuntime_manager.go, v1.36, SyncPod, which has decided what it starts before it kills.
        """
        if self.manifest["spec"]["restartPolicy"] != "Never":
            self._to_follow |= {container.id for container in alive}

    # --- what must hold -----------------------------------------------------------------------------------------------

    def check_start(self, container: Container, before: Sequence[Container], *, unseen: bool) -> None:
        """Check that a restart is permitted; `before` has the earlier instances, and no operator has requested it.

        `unseen`: how the last of them ended was taken away before anybody could know.
        """
        if not before or self._restarts_all():
            return
        name, last = container.name, before[-1]
        if container.kind == "init_container":
            here = [each for each in before if each.sandbox == container.sandbox]
            if self._is_sidecar(name) or not here:
                return  # a new sandbox begins with the first again
            if not unseen and _succeeded(here[-1]):
                raise Violation(f"the init container {name} has succeeded, and runs again in the same sandbox")
            if self._policy(name) == "Never":
                raise Violation(f"{name} of a pod that never restarts runs a second time")
            return
        if last.id in self._to_follow:
            return
        policy = self._policy(name)
        if policy == "Never" and not (self._is_ruled(name) and last.code == RULED):
            raise Violation(f"{name} of a pod that never restarts runs a second time")
        if policy == "OnFailure" and _succeeded(last) and not unseen:
            raise Violation(f"{name} has succeeded, and runs again")

    def is_wanting(self, name: str, last: Container | None, *, unseen: bool = False) -> bool:
        """Return whether a main container that does not run must run, given its newest instance, which has ended.

        `unseen` as in `check_start`.
        """
        policy = self._policy(name)
        if last is None or policy == "Always" or unseen:
            return last is None or policy == "Always"
        if last.id in self._to_follow:
            return True
        return last.code == RULED if self._is_ruled(name) else policy == "OnFailure" and not _succeeded(last)

    def check_over(self, newest: dict[str, Container]) -> None:
        """Check that a pod that finished by itself has no container left to run; `newest` is by name."""
        if self._restarts_all() or any(self._ends_the_pod(each) for each in newest.values()):
            return
        for name in (container["name"] for container in self.manifest["spec"]["containers"]):
            last = newest.get(name)
            if last is not None and self.is_wanting(name, last):
                why = "was ended so that another follows" if last.id in self._to_follow else f"exited {last.code}"
                raise Violation(f"the pod is over, and {name}, which {why}, is to run again")

    def _ends_the_pod(self, last: Container) -> bool:
        """Return whether an instance is of an init container that failed for good, after which nothing starts."""
        if last.kind != "init_container" or self._policy(last.name) != "Never" or last.state != "exited":
            return False
        return not (_succeeded(last) or (self._is_ruled(last.name) and last.code == RULED))

    # --- small ones ---------------------------------------------------------------------------------------------------

    def _policy(self, name: str) -> str:
        return str(self._container(name).get("restartPolicy") or self.manifest["spec"]["restartPolicy"])

    def _is_ruled(self, name: str) -> bool:
        return "restartPolicyRules" in self._container(name)

    def _is_sidecar(self, name: str) -> bool:
        return self._container(name).get("restartPolicy") == "Always"

    def _restarts_all(self) -> bool:
        return "RestartAllContainers" in str(self.manifest["spec"])

    def _container(self, name: str) -> dict[str, Any]:
        spec = self.manifest["spec"]
        every = (each for kind in ("initContainers", "containers") for each in spec.get(kind, ()))
        return next((each for each in every if each["name"] == name), {})


def _succeeded(container: Container) -> bool:
    return container.state == "exited" and container.code == 0
