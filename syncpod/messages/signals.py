"""What a pod's workflow is told: one model for the payload of each signal, some of which are updates too."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from syncpod.lifecycle.observed import ObservedPod
from syncpod.messages.identity import Message, NodeFacts


class PlegEvent(Message):
    """One change that the agent saw: the kubelet's PodLifecycleEvent. It wakes the pod; only ``status`` decides."""

    type: str = ""
    """``ContainerStarted``, ``ContainerDied``, ``ContainerRemoved``, ``PodSync``, ``Boot`` or ``RuntimeReady``."""
    id: str = ""


class Pleg(Message):
    """Signal ``pleg``: the whole pod as the runtime has it, and what changed since the last one."""

    events: tuple[PlegEvent, ...] = ()
    status: ObservedPod = Field(default_factory=ObservedPod)
    node: NodeFacts = NodeFacts()
    decision_version: int = 0
    """The decisions that the sending worker has; 0 = not said. After boot it wakes runs that have older ones."""


class DeletePod(Message):
    """Signal and update ``delete``: end the pod. ``None`` = the pod's own terminationGracePeriodSeconds."""

    grace_period_seconds: int | None = None
    uid: str = ""
    """When given, only the pod with this UID is meant (the API's precondition)."""


class BackoffExpired(Message):
    """Signal ``backoff_expired``: a container's back-off is over; without ``restart``, an operator will not wait."""

    container: str = ""
    restart: int | None = None
    appeared: str = ""
    """The ConfigMap or Secret that was wanting and is there now, where the node's agent says so."""


class Restart(Message):
    """Signal ``restart``: an operator has a container ended with its grace and started again, without a back-off."""

    container: str = ""
    """A main container or a sidecar; "" = every main container."""


class SetCondition(Message):
    """Signal ``set_condition``: what somebody else says of the pod, a readiness gate's condition for one."""

    type: str = ""
    """``example.com/load-balanced``, say; none that the node itself sets."""
    status: Literal["True", "False", "Unknown"] = "Unknown"
    reason: str = ""
    """One word in CamelCase."""
    message: str = ""


class ProbeChanged(Message):
    """Signal ``probe``: what a probe of one container instance says now; sent only when that has changed."""

    uid: str = ""
    """The pod that is meant; "" = whichever has the container."""
    container: str = ""
    container_id: str = Field(
        default="", alias="containerID", validation_alias=AliasChoices("containerID", "containerId")
    )
    """The instance, as the runtime names it."""
    probe: Literal["startup", "liveness", "readiness"] = "readiness"
    result: Literal["success", "failure", "unknown"] = "unknown"
    message: str = ""
    """The last answer, in the kubelet's words."""
    warning: bool = False
    """It is a success about which something is to be said: a redirect to another host."""


class Evict(Message):
    """Signal ``evict``: the node puts the pod out; it becomes Failed with this reason and message, and stays so."""

    uid: str = ""
    """The pod that is meant; another one of its name is left alone."""
    reason: str = "Evicted"
    message: str = ""
    grace_period_seconds: int = 1
    disruption: bool = False
    """It is for want of something on the node, not for what the pod has done: its condition DisruptionTarget says so.
    """
