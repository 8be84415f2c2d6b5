"""Reconciles pods with one source of the node: starts, changes and ends them until they match the source's list.

A source is the directory of manifests, or the Kubernetes cluster that the node belongs to. The source has the desired
pods, and the pods' workflows have the actual ones, each with an annotation that names its source. So a new worker needs
no notes of the previous one. Workflows of pods that left the source meanwhile publish their states when the new worker
takes them over, and are ended then.

Mirrors the kubelet's sync loop over its configuration (kubelet.go, v1.36, HandlePodAdditions and its siblings,
HandlePodCleanups). Difference: a failed order is repeated after a back-off, which the node's report shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from syncpod.agent.background import cancel_all
from syncpod.agent.pod_workflows import OpenWorkflows
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle import backoff
from syncpod.lifecycle.backoff import BackoffStore
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import (
    FILE_SOURCE,
    SEEN_ANNOTATION,
    SOURCE_ANNOTATION,
    SOURCE_NAMES,
    ApplyPodWorkflow,
    DeletePodWorkflow,
    DesiredPod,
    PodKey,
    PodWorkflowResult,
)
from syncpod.pod import ObjectMeta
from syncpod.pod.origin import list_of

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""The most orders that are sent at the same time."""
_RETRY_SECONDS: Final = 1.0
"""Seconds until the next try after the server did not answer; such a failure does not count in the pod's back-off."""
_QUICK_SECONDS: Final = (0.2, 0.4)
"""Seconds between the first tries after another error: a workflow may have just ended. Later tries use the back-off."""
_LONGEST_MESSAGE: Final = 300
_ORIGIN: Final = frozenset((SOURCE_ANNOTATION, SEEN_ANNOTATION))


class Listing(NamedTuple):
    """The pods that a source desires now."""

    pods: tuple[dict[str, Any], ...]
    """v1 Pods with their defaults and UIDs."""
    kept: tuple[PodKey, ...]
    """Pods that are left as they are: the source lists them, but their documents cannot be read."""
    problems: tuple[str, ...]
    """The source's problems, one sentence each."""
    named: frozenset[PodKey] = frozenset()
    """Pods whose UIDs the source sets, so that a UID stays the same when the pod's document changes."""
    replaced: frozenset[PodKey] = frozenset()
    """Pods that left the source and came back since the last listing: their running containers are ended before the
    pod starts again."""


class Orders(Protocol):
    """Sends orders to pods' workflows. Implemented by `syncpod.temporal.pod_orders.PodOrders`.

    Both methods raise the client's errors unchanged.
    """

    async def apply(self, request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        """Start or change a pod's workflow. Awaits `require` first, and sends nothing if it raises."""

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        """End a pod."""


class PodOfSource(Protocol):
    """The part of a pod's published state by which it is compared with its source."""

    @property
    def metadata(self) -> ObjectMeta:
        """The pod's metadata."""

    @property
    def is_followed(self) -> bool:
        """Whether another pod of its name starts in the same workflow when this one ends."""


@dataclass(eq=False)
class _Pod:
    key: PodKey
    document: Mapping[str, Any] | None = None
    """The v1 Pod that the source lists now; None if the source does not list this pod."""
    kept: bool = False
    """The pod is left as it is, since its document cannot be read."""
    sent_document: Mapping[str, Any] | None = None
    """The document that was last sent to the pod's workflow; None if that is unknown, or if nothing was sent."""
    is_assumed: bool = False
    """True if `sent_document` is only assumed: an earlier worker sent it. The pod's next published state confirms or
    corrects it."""
    ends_first: bool = False
    """The running pod with this UID must end before the pod starts again (pod_workers.go, v1.36, restartRequested)."""
    is_named: bool = False
    """The source sets the UID, so that a changed document has the UID of the running pod."""
    begun_anew_for: Mapping[str, Any] | None = None
    """The document that the running pod could not take, so that the pod was ended for it; None once it has started."""
    uids: tuple[str, ...] = ()
    """UIDs of the source's pods that may run under the name, the newest last."""
    seen: dict[str, str] = field(default_factory=dict)
    """By UID: when the node first saw the pod, from the pod's annotation."""
    sending: asyncio.Task[None] | None = None
    retry_timer: asyncio.TimerHandle | None = None
    """Calls `_send_if_due` again when the pod's back-off ends."""
    tries: int = 0
    """How many consecutive tries have failed, except those that the server did not answer."""

    @property
    def name(self) -> str:
        return f"{self.key.namespace}/{self.key.name}"

    @property
    def uid(self) -> str:
        """The UID in the source's document; without a document, the newest UID that may still run; "" = none."""
        return _uid(self.document) if self.document is not None else next(iter(reversed(self.uids)), "")

    @property
    def is_as_it_should_be(self) -> bool:
        return self.kept or (self.document is not None and self.sent_document == self.document and not self.ends_first)


class DesiredPods:
    """The pods of one source. All methods belong to one event loop."""

    def __init__(
        self,
        node: str,
        source: str,
        orders: Orders,
        workflows: OpenWorkflows,
        known: Callable[[], Sequence[PodOfSource]],
        require: Callable[[], Awaitable[None]],
    ) -> None:
        """Send orders with `orders`. `require` raises RPCError if the server is not the node's.

        `source` is the name of the source in the pods' annotation. `known` returns the last published state of each pod
        whose workflow this worker has seen.
        """
        self._node, self._source = node, source
        self._orders = orders
        self._workflows = workflows
        self._known = known
        self._require = require
        self._pods: dict[PodKey, _Pod] = {}
        self._backoff = BackoffStore()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._ended_by_others: dict[PodKey, None] = {}
        self._begun_anew: list[str] = []
        self._there: dict[str, str] = {}
        """By workflow id: the UIDs of pods that ran before the source was first read. An entry is removed once the
        source has listed its pod."""
        self.is_read = False
        """Whether this worker has read the source. Before that, no pod is ended."""
        self.news = asyncio.Event()
        """Set whenever `report` may return something new."""

    # --- inputs -------------------------------------------------------------------------------------------------------

    async def take(self, listing: Listing) -> None:
        """Begin to make the pods match the listing. The first call may raise RPCError; then call it again.

        The first call asks the server which pods already have workflows. A workflow whose pod has the listed UID needs
        no order. But the document of a `named` pod may have changed under its UID. If the source numbers its changes
        (`generation`), the workflow's next published state shows whether the document has changed. Otherwise an order
        is sent.
        """
        wanted = {_key(each["metadata"]): each for each in listing.pods}
        if not self.is_read and (wanted or listing.kept):
            self._there = await self._workflows.open()
        for key in {**dict.fromkeys(wanted), **dict.fromkeys(listing.kept), **dict.fromkeys(self._pods)}:
            pod = self._pods.setdefault(key, _Pod(key))
            document, pod.kept, pod.is_named = wanted.get(key), key in listing.kept, key in listing.named
            if document != pod.document:
                pod.document = document
                self._forget_backoff(pod)
            if document is not None and self._there.pop(_workflow_id(key), "") == _uid(document):
                self._assume(pod, document)
            pod.ends_first = _uid(document) in pod.uids and (pod.ends_first or key in listing.replaced)
        if not self.is_read:
            self.is_read = True
            for state in self._known():
                self.published(state)
        for pod in list(self._pods.values()):
            self._send_if_due(pod)
        self.news.set()

    def _assume(self, pod: _Pod, document: Mapping[str, Any]) -> None:
        """Take this document for one that an earlier worker has sent, if that is certain or can be checked."""
        if pod.is_named and "generation" not in document["metadata"]:
            return
        pod.sent_document, pod.uids, pod.is_assumed = document, (_uid(document),), pod.is_named
        for state in self._known() if pod.is_named and self.is_read else ():
            meta = state.metadata
            if _key_of(meta) == pod.key:
                self._compare(pod, meta)

    def published(self, state: PodOfSource) -> None:
        """Take a pod's published state. The pod is ended if the source lists no pod, or another one, of its name."""
        meta = state.metadata
        if not self.is_read or list_of(meta) != self._source:
            return
        key = _key_of(meta)
        pod = self._pods.get(key)
        if pod is not None:
            pod.seen.setdefault(meta.uid, meta.annotations.get(SEEN_ANNOTATION, ""))
            self._compare(pod, meta)
        if meta.deletion_timestamp is not None or (pod is not None and meta.uid in pod.uids):
            return
        pod = self._pods.setdefault(key, _Pod(key))
        pod.uids = (meta.uid, *pod.uids)
        if pod.document is not None and _uid(pod.document) != meta.uid:
            pod.sent_document = None  # another pod runs under this name, despite the order
        self._forget_backoff(pod)
        self._send_if_due(pod)

    def _compare(self, pod: _Pod, meta: ObjectMeta) -> None:
        """Check an assumed `sent_document` by the workflow's published state; if it is wrong, send an order."""
        if not pod.is_assumed or pod.sent_document is None or meta.uid != _uid(pod.sent_document):
            return
        pod.is_assumed = False
        if not _is_of(meta, pod.sent_document):
            pod.sent_document = None
            self._send_if_due(pod)

    def gone(self, state: PodOfSource) -> None:
        """Note that a pod's workflow has ended, by the state that it has published last."""
        meta, is_followed = state.metadata, state.is_followed
        pod = self._pods.get(_key_of(meta))
        if pod is None:
            return
        self._there.pop(_workflow_id(pod.key), None)
        if not is_followed or pod.uid != meta.uid:
            pod.uids = tuple(uid for uid in pod.uids if uid != meta.uid)
        if not is_followed and pod.sent_document is not None and _uid(pod.sent_document) == meta.uid:
            self._was_ended(pod)
        self._forget_backoff(pod)  # the name may have been another pod's
        self._send_if_due(pod)

    async def find_ended(self) -> None:
        """Find the pods whose workflows have ended without publishing their end. Raises RPCError."""
        sent = [pod for pod in self._pods.values() if pod.sent_document is not None and pod.sending is None]
        is_open = await self._workflows.open() if sent else {}
        for pod in sent:
            document = pod.sent_document
            if document is None or _workflow_id(pod.key) in is_open:
                continue
            standing = await self._workflows.standing(PodRef(**pod.key.model_dump(), uid=_uid(document)))
            if standing in ("closed", "unknown") and pod.sent_document is document and pod.sending is None:
                self._was_ended(pod)
                self._send_if_due(pod)

    def _was_ended(self, pod: _Pod) -> None:
        pod.sent_document = None
        if pod.document is not None:
            self._ended_by_others[pod.key] = None
        self.news.set()

    # --- orders -------------------------------------------------------------------------------------------------------

    def _order(self, pod: _Pod) -> ApplyPodWorkflow | DeletePodWorkflow | None:
        """Return the order for a pod's workflow, regardless of back-offs; None if the pod is as it should be."""
        if pod.is_as_it_should_be:
            return None
        if pod.document is None:
            return DeletePodWorkflow(**pod.key.model_dump(), uids=pod.uids) if pod.uids else None
        uid = _uid(pod.document)
        if pod.ends_first and uid in pod.uids:
            return DeletePodWorkflow(**pod.key.model_dump(), uids=pod.uids)
        seen = pod.seen.setdefault(uid, datetime.now(UTC).isoformat().replace("+00:00", "Z"))
        replaces = tuple(each for each in pod.uids if each != uid)
        return ApplyPodWorkflow(node=self._node, pod=with_origin(pod.document, self._source, seen), replaces=replaces)

    def _send_if_due(self, pod: _Pod) -> None:
        """Start sending a pod's order, if it has one, and no order is being sent or waits for a retry."""
        if pod.sending is not None or pod.retry_timer is not None:
            return
        if self._order(pod) is not None:
            pod.sending = asyncio.create_task(self._send_and_retry(pod), name=f"pod {pod.name} of {self._source}")
        elif pod.document is None and not pod.kept:
            self._forget_backoff(pod)
            del self._pods[pod.key]
            self.news.set()

    async def _send_and_retry(self, pod: _Pod) -> None:
        retry = None
        try:
            async with self._room:
                retry = await self._send_order(pod)
        finally:
            pod.sending = None
            self.news.set()
        if retry is not None:
            pod.retry_timer = asyncio.get_running_loop().call_later(retry, self._retry, pod)
        else:
            self._send_if_due(pod)

    async def _send_order(self, pod: _Pod) -> float | None:
        """Send a pod's current order; return the seconds until the next try, None if no other is needed."""
        order, document = self._order(pod), pod.document
        if order is None:
            return None
        if isinstance(order, ApplyPodWorkflow):
            # From now on the pod may run, even if no answer comes.
            pod.uids = (*(uid for uid in pod.uids if uid != _uid(document)), _uid(document))
        if isinstance(order, DeletePodWorkflow) or order.replaces:
            pod.sent_document = None  # if that pod ends from now on, it was ended by this order
        try:
            if isinstance(order, ApplyPodWorkflow):
                result = await self._orders.apply(order, require=self._require)
            else:
                await self._require()
                result = await self._orders.end(order)
        except RPCError as error:
            log.warning("the workflow of pod %s cannot be reached: %s", pod.name, error.message)
            return _RETRY_SECONDS
        except Exception as error:  # noqa: BLE001  # it must not keep the source's other pods from their orders
            pod.tries += 1
            if pod.tries <= len(_QUICK_SECONDS):
                return _QUICK_SECONDS[pod.tries - 1]
            return self._failed(pod, order, type(error).__name__, _text(error))
        if result.refused and isinstance(order, ApplyPodWorkflow):
            if self._begins_anew(pod, order, result.refused):
                return None
            return self._failed(pod, order, "Refused", result.refused)
        self._backoff, pod.tries = backoff.forget(self._backoff, pod.name), 0
        if isinstance(order, ApplyPodWorkflow):
            over, pod.sent_document, pod.begun_anew_for = order.replaces, document, None
        else:
            over, pod.sent_document, pod.ends_first = order.uids, None, False
        pod.uids = tuple(uid for uid in pod.uids if uid not in over)
        pod.seen = {uid: at for uid, at in pod.seen.items() if uid in pod.uids}
        return None

    def _begins_anew(self, pod: _Pod, order: ApplyPodWorkflow, why: str) -> bool:
        """Return whether the running pod now ends first, because a changed file with its UID was refused as a change.

        Happens once for each document: after that, the refusal is not about the change.
        """
        uid, document = _uid(pod.document), pod.document
        if self._source != FILE_SOURCE or not pod.is_named or pod.begun_anew_for == document:
            return False
        running = [each.metadata for each in self._known() if _key_of(each.metadata) == pod.key]
        is_ours = any(meta.uid == uid and list_of(meta) == self._source for meta in running)
        if not is_ours or self._order(pod) != order:
            return False
        pod.begun_anew_for, pod.ends_first, pod.tries = document, True, 0
        sentence = f"pod {pod.name} ends and begins anew, since its changed manifest cannot be applied to it: {why}"
        log.warning("%s", sentence)
        self._begun_anew.append(sentence[:_LONGEST_MESSAGE])
        self.news.set()
        return True

    def _failed(self, pod: _Pod, order: ApplyPodWorkflow | DeletePodWorkflow, reason: str, why: str) -> float | None:
        """Record why an order has failed; return the back-off in seconds, None if the pod's order has changed."""
        pod.tries = 0
        if self._order(pod) != order:
            return None
        what, now = "ended" if isinstance(order, DeletePodWorkflow) else "applied", datetime.now(UTC)
        log.warning("pod %s of %s cannot be %s: %s", pod.name, SOURCE_NAMES[self._source], what, why)
        message = why if len(why) <= _LONGEST_MESSAGE else f"{why[: _LONGEST_MESSAGE - 1]}…"
        self._backoff = backoff.record_failure(self._backoff, pod.name, now=now, reason=reason, message=message)
        return self._backoff.entries[pod.name].delay.total_seconds()

    def _retry(self, pod: _Pod) -> None:
        pod.retry_timer = None
        self._send_if_due(pod)

    def _forget_backoff(self, pod: _Pod) -> None:
        """Drop a pod's back-off, so that its next order is sent at once."""
        self._backoff = backoff.forget(self._backoff, pod.name)
        if pod.retry_timer is not None:
            pod.retry_timer.cancel()
            pod.retry_timer = None

    async def close(self) -> None:
        """Cancel the orders that are being sent; the next worker sends the missing ones."""
        sending = [pod.sending for pod in self._pods.values() if pod.sending is not None]
        for pod in self._pods.values():
            self._forget_backoff(pod)
        await cancel_all(sending)

    # --- the report ---------------------------------------------------------------------------------------------------

    def report(self) -> tuple[DesiredPod, ...]:
        """Return the pods that the source lists, and those whose workflows have not been ended yet."""
        return tuple(self._reported(pod) for _, pod in sorted(self._pods.items(), key=lambda each: each[1].name))

    def take_ended_by_others(self) -> tuple[PodKey, ...]:
        """Return the pods that other clients have ended since the last call."""
        ended, self._ended_by_others = tuple(self._ended_by_others), {}
        return ended

    def take_begun_anew(self) -> tuple[str, ...]:
        """Return a sentence for each pod that was ended since the last call because it could not be changed."""
        begun, self._begun_anew = tuple(self._begun_anew), []
        return begun

    def _reported(self, pod: _Pod) -> DesiredPod:
        held = self._backoff.entries.get(pod.name)
        return DesiredPod(
            **pod.key.model_dump(),
            uid=pod.uid,
            source=self._source,
            state="applied" if pod.is_as_it_should_be else "ending" if pod.document is None else "pending",
            reason=held.reason if held is not None else "",
            message=held.message if held is not None else "",
            retry_at=held.last_update + held.delay if held is not None and pod.retry_timer is not None else None,
        )


def _text(error: Exception) -> str:
    """Return the part of an error that may be shown: other errors' texts may contain the pod's spec."""
    if isinstance(error, ApplicationError):
        return error.message
    return where_and_why(error) if isinstance(error, OSError) else type(error).__name__


def _is_of(meta: ObjectMeta, document: Mapping[str, Any]) -> bool:
    """Say whether a pod with this metadata was made from this version of a document."""
    wanted = document["metadata"]
    annotations = {name: text for name, text in meta.annotations.items() if name not in _ORIGIN}
    return (
        meta.generation == wanted["generation"]
        and meta.labels == wanted.get("labels", {})
        and annotations == {name: text for name, text in wanted.get("annotations", {}).items() if name not in _ORIGIN}
    )


def _uid(document: Mapping[str, Any] | None) -> str:
    return str(document["metadata"]["uid"]) if document is not None else ""


def _key(metadata: Mapping[str, Any]) -> PodKey:
    return PodKey(namespace=metadata["namespace"], name=metadata["name"])


def _key_of(meta: ObjectMeta) -> PodKey:
    return PodKey(namespace=meta.namespace, name=meta.name)


def _workflow_id(key: PodKey) -> str:
    return pod_workflow_id(key.namespace, key.name)


def with_origin(document: Mapping[str, Any], source: str, seen: str) -> dict[str, Any]:
    """Return a document with annotations for its source, and for the time at which the node first saw the pod.

    In the kubelet, that time does not survive a restart (config/config.go, v1.36, updatePodsFunc).
    """
    metadata = document["metadata"]
    origin = {SOURCE_ANNOTATION: source, SEEN_ANNOTATION: seen}
    return {**document, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **origin}}}
