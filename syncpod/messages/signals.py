"""The payload of each signal to a pod's workflow; some of them are updates too. `pod_commands` has their table."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field, StrictInt, model_validator

from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import Message, NodeFacts
from syncpod.pod.wire import ForeignText


class PlegEvent(Message):
    """One change that the agent found: the kubelet's PodLifecycleEvent.

    It wakes the pod's workflow, which decides only by the signal's ``status``.
    """

    type: str = ""
    """``ContainerStarted``, ``ContainerDied``, ``ContainerRemoved``, ``PodSync``, ``Boot`` or ``RuntimeReady``."""
    id: str = ""


class Pleg(Message):
    """Signal ``pleg``: the whole pod as the runtime lists it, and the events since the previous listing."""

    events: tuple[PlegEvent, ...] = ()
    status: ObservedPod = Field(default_factory=ObservedPod)
    node: NodeFacts = NodeFacts()


class DeletePod(Message):
    """Signal ``delete_pod`` and update ``delete``: end the pod.

    A grace of ``None`` is the pod's own terminationGracePeriodSeconds.
    """

    grace_period_seconds: StrictInt | None = None
    uid: str = ""
    """If set, only the pod with this UID is deleted (the API's precondition)."""

    @model_validator(mode="before")
    @classmethod
    def _from_null(cls, given: Any) -> Any:
        """Take JSON's null as an empty object: some clients send it as an empty payload."""
        return {} if given is None else given


class BackoffExpired(Message):
    """Signals ``backoff_expired``, an operator's, and ``backoff_queue``, the node's: a container's back-off is over.

    Both have the same effect. They have two names so that a history shows who has ended a back-off.
    """

    container: str = ""
    restart: StrictInt | None = None
    """The restart whose back-off is over, as the node's queue names it; None = end the back-off of any restart, even
    early."""
    appeared: str = ""
    """The ConfigMap or Secret that was missing and is there now, if the node's agent sends the signal."""


class Restart(Message):
    """Signal ``restart``: end a container with its grace, and start it again without back-off, for an operator."""

    container: str = ""
    """A main container or a sidecar; "" = every main container."""


class SetCondition(Message):
    """Signal ``set_condition``: a condition of the pod that others set, such as a readiness gate's."""

    type: str = ""
    """The condition's type, such as ``example.com/load-balanced``; the node's own types are refused."""
    status: Literal["True", "False", "Unknown"] = "Unknown"
    reason: str = ""
    """The reason: one word in CamelCase."""
    message: str = ""


class ProbeChanged(Message):
    """Signal ``probe``: the result of a probe of one container instance, or how often it failed or could not be run.

    Sent when the result has changed, when it first fails, and when the count of failures is 10, 100 and so on.
    """

    uid: str = ""
    """The pod's UID; "" = any pod that has the container."""
    container: str = ""
    container_id: str = Field(
        default="", alias="containerID", validation_alias=AliasChoices("containerID", "containerId")
    )
    """The instance, as the runtime names it."""
    probe: Literal["startup", "liveness", "readiness"] = "readiness"
    result: Literal["success", "failure", "unknown"] = "unknown"
    """``unknown`` changes no result: the probe could not be run, or has failed less often than its threshold."""
    message: ForeignText = ""
    """The last answer, in the kubelet's words."""
    failures: int = Field(default=0, ge=0, le=1_000_000_000)
    """The number of failed answers that no earlier signal has reported; the result `failure` counts as at least one."""
    failure: ForeignText = ""
    """The last failed answer; "" means that it is `message`."""
    warning: bool = False
    """A success with a warning: the probe was redirected to another host."""
    errors: int = Field(default=0, ge=0, le=1_000_000_000)
    """How often the probe could not be run since the last report of this number. 0 counts as once if `result` is
    ``unknown`` and `failures` is 0."""


class Evict(Message):
    """Signal ``evict``: the node evicts the pod, which becomes Failed with this reason and message for good."""

    uid: str = ""
    """The pod's UID; a pod with another UID rejects the signal."""
    reason: str = "Evicted"
    message: ForeignText = ""
    grace_period_seconds: StrictInt = 1
    disruption: bool = False
    """The node is short of a resource, and the pod is not at fault. The pod gets the condition DisruptionTarget."""
