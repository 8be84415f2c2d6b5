"""The one table of the signals, updates and queries that a pod's workflow takes, and its answer to an apply.

A new command needs its payload in `syncpod.messages.signals`, its row here, and its effect in `workflows.pod.absorb`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from syncpod.messages.command_table import RENEW, QuerySpec, Sender, SignalSpec, UpdateSpec, command_table
from syncpod.messages.signals import BackoffExpired, DeletePod, Evict, Pleg, ProbeChanged, Restart, SetCondition

_Document = dict[str, Any]
_POD: Final = "a v1 Pod"
_IDENTITY: Final = '`{"uid": "…", "generation": 2}`'

UPDATE_POD: Final = SignalSpec[_Document](
    "update_pod", dict, "The desired pod, as with the update `apply`", form=_POD, same_as="apply"
)
DELETE_POD: Final = SignalSpec(
    "delete_pod",
    DeletePod,
    "End the pod; `null` is the pod's own grace period; with `uid`, only the pod with that UID",
    same_as="delete",
)
BACKOFF_EXPIRED: Final = SignalSpec(
    "backoff_expired",
    BackoffExpired,
    "End the back-off of `container`, or of a failed step by its name, such as `create_sandbox`",
)
BACKOFF_QUEUE: Final = SignalSpec(
    "backoff_queue",
    BackoffExpired,
    "A back-off is over, or what was missing has appeared; it names the restart, or the object",
    Sender.AGENT,
)
"""Its effect is that of `backoff_expired`. It has a name of its own so that a history shows who ended a back-off."""
RESTART: Final = SignalSpec(
    "restart",
    Restart,
    "End a container and start it again, without a back-off; empty means every main container; a sidecar may be named "
    "too, and each has its grace period",
)
SET_CONDITION: Final = SignalSpec(
    "set_condition",
    SetCondition,
    "Set a condition of the pod, such as a readiness gate's; the node's own types are refused; `status` is `True`, "
    "`False` or `Unknown`",
)
EVICT: Final = SignalSpec(
    "evict", Evict, "Fail the pod for good; `disruption` adds the condition `DisruptionTarget`", Sender.AGENT
)
PLEG: Final = SignalSpec(
    "pleg",
    Pleg,
    "The pod as the runtime lists it, what has changed, and facts of the node",
    Sender.AGENT,
    is_resent=True,
)
PROBE: Final = SignalSpec(
    "probe", ProbeChanged, "The result of a probe of one container instance", Sender.AGENT, is_resent=True
)

APPLY: Final = UpdateSpec[_Document](
    "apply",
    dict,
    "The desired pod: make it, or change it",
    form=_POD,
    answer='`{"uid": "…", "generation": 2, "change": "configured", "node": "vm"}`; `change` is `created`, '
    "`configured`, `unchanged` or `follows the one that is being deleted`",
)
DELETE: Final = UpdateSpec(
    "delete",
    DeletePod,
    "End the pod, as the signal `delete_pod` does",
    answer=f"{_IDENTITY}, and `since` if the deletion begins with this update",
    is_optional=True,
)
RESIZE: Final = UpdateSpec[_Document](
    "resize",
    dict,
    "Change CPU and memory; containers and amounts that are missing stay as they are",
    form='{"containers": [{"name": "web", "resources": {}}], "initContainers": [], "resources": null}',
    answer=_IDENTITY,
)
ADD_EPHEMERAL_CONTAINER: Final = UpdateSpec[_Document](
    "add_ephemeral_container", dict, "Add an ephemeral container", form="a v1 EphemeralContainer", answer=_IDENTITY
)

POD: Final = QuerySpec("pod", "The v1 Pod with its status, as `kubectl get -o json` prints it")
PLAN: Final = QuerySpec(
    "plan",
    "The steps that come next",
    'none; or a v1 Pod; or the payload of `resize`, and then `"resize"`',
    '`{"steps": [{"step", "container", "why"}], "holds": [{"subject", "until", "reason", "message"}]}`, and `error` '
    "if the candidate would be refused, else its `change`; `deadline` is when the active deadline fails the pod",
)
HISTORY: Final = QuerySpec(
    "history",
    "Decisions, steps, signals and exits, oldest first",
    answer="a list of decisions, steps, signals and exits, oldest first: `at`, `kind`, `subject`, `container`, "
    "`restart`, `reason`, `outcome`, `attempt`, `tookMs`, `fact`, `seconds`",
)
EVENTS: Final = QuerySpec(
    "events",
    "Events in the kubelet's words, and rejections, oldest first",
    answer="a list of events, oldest first: `type`, `reason`, `message`, `container`, `count`, `first`, `last`",
)

POD_COMMANDS: Final = command_table(
    UPDATE_POD,
    DELETE_POD,
    PLEG,
    PROBE,
    BACKOFF_EXPIRED,
    BACKOFF_QUEUE,
    RESTART,
    SET_CONDITION,
    EVICT,
    RENEW,
    APPLY,
    DELETE,
    RESIZE,
    ADD_EPHEMERAL_CONTAINER,
    POD,
    PLAN,
    HISTORY,
    EVENTS,
)
"""Every signal, update and query of a pod, by its name."""


class Change(StrEnum):
    """The result of an apply, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    FOLLOWS = "follows the one that is being deleted"


class AppliedPod(BaseModel):
    """The answer of a pod's workflow to the update `apply`: the pod that it reached, and the result."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    uid: str = ""
    """The UID of the workflow's present pod. If `change` is FOLLOWS, that is the pod that is being deleted."""
    generation: int | None = None
    change: Change = Change.CONFIGURED
    """CONFIGURED is also the default for an answer of an older worker, which does not have this field."""
    node: str = ""
    """The node that has the pod; it may differ from the node that the apply named."""

    def on_wire(self) -> dict[str, Any]:
        """Return the answer as the update returns it."""
        return self.model_dump(mode="json")
