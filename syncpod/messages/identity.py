"""Identities: ids of workflows and task queues, references to a life of a pod, and the facts of its node.

Also the base of every message, :class:`Message`.
"""

from __future__ import annotations

import hashlib
from ipaddress import ip_address
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from syncpod.lifecycle.observed import ObservedPod
from syncpod.pod import Pod, pod_to_wire

WORKFLOW_ID_LIMIT = 255
"""The most bytes of a workflow id: PostgreSQL and MySQL schemas of Temporal hold it in VARCHAR(255)."""

NAME_LIMIT = 500
"""The most characters of a name that becomes a search attribute: a server ends a workflow that writes more than 2,048
bytes."""

POD_WORKFLOW = "PodWorkflow"
"""Workflow type of a pod, as ``temporal workflow start --type`` takes it."""

WirePod = Annotated[Pod, PlainSerializer(pod_to_wire, return_type=dict[str, Any])]
"""A Pod that serialises as kubectl prints it: only the fields that are set."""


class Message(BaseModel):
    """Base of every message: frozen, camelCase on the wire, every field defaulted.

    Unknown fields are ignored, unless the reader forbids them.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


def bounded_id(prefix: str, readable: str) -> str:
    """Return ``prefix + readable``. If that exceeds :data:`WORKFLOW_ID_LIMIT` bytes, cut it, and append a hash."""
    whole = f"{prefix}{readable}"
    if len(whole.encode()) <= WORKFLOW_ID_LIMIT:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:32]
    head = whole.encode()[: WORKFLOW_ID_LIMIT - len(digest) - 1].decode(errors="ignore")
    return f"{head}-{digest}"


POD_PREFIX: Final = "pod/"
"""The beginning of the workflow ids of pods."""


def pod_workflow_id(namespace: str, name: str) -> str:
    """Return the workflow id of a pod: ``pod/<namespace>/<name>``, at most 255 bytes (a longer one ends in a hash)."""
    return bounded_id(POD_PREFIX, f"{namespace}/{name}")


def node_task_queue(node: str) -> str:
    """Return the task queue of a node's worker, for its pods' workflows and activities: ``node/<name>``."""
    return bounded_id("node/", node)


class PodRef(Message):
    """A reference to one life of a pod."""

    namespace: str = "default"
    name: str = ""
    uid: str = ""
    incarnation: str = ""
    """The id of this life, which differs from the id of an earlier life with the same static UID. The runtime keeps it
    as an annotation."""


class EndedLife(NamedTuple):
    """A life of a pod that is over; remains of it may still be on its node."""

    ref: PodRef
    stopped: tuple[str, ...] = ()
    """Sandboxes (runtime ids) that its kill has stopped. A second stop would tear a sandbox's network down again."""
    listing: ObservedPod | None = None
    """The last listing of its kill, as its workflow has published it; None = not known."""


def _address(text: str) -> str:
    """Return `text` unchanged. Raises ValueError if it is not an IP address."""
    ip_address(text)
    return text


class NodeFacts(Message):
    """The facts of a pod's node, which every step and signal from that node carries."""

    name: str = Field(default="", max_length=NAME_LIMIT)
    runtime: str = Field(default="", max_length=NAME_LIMIT)
    """Name of the CRI runtime, the scheme of ``containerID``; "" if not known."""
    host_ips: tuple[Annotated[str, AfterValidator(_address)], ...] = ()
    recursive_read_only_handlers: tuple[str, ...] = ()
    """The runtime's handlers that can mount read-only recursively, by name; "" = its default handler."""
    restart_backoff_max: float = Field(default=0.0, ge=0)
    """The longest back-off of a restart in seconds, for pods that set none; 0 = the kubelet's."""
    search_attributes: bool = False
    """Whether the namespace has :data:`SEARCH_ATTRIBUTES`: writing an unknown one would fail the workflow task."""
