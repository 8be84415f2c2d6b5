"""The pods that one source of the node desires: begun, changed and ended until they are as it lists them.

A source is the directory of manifests, or the cluster that the node belongs to. It is the truth, and each pod's own
workflow shows what there is: the pod has the annotation of its source. So nothing has to be remembered from one life of
the worker to the next. The workflows of pods that left the source meanwhile publish when the new worker takes them
over, and end.

Mirrors the kubelet's sync loop over its configuration (kubelet.go, v1.36, HandlePodAdditions and its siblings,
HandlePodCleanups). Difference: an order that fails is repeated after a back-off that everybody can see.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from syncpod.agent.pod_workflows import OpenWorkflows
from syncpod.kernel.os_errors import where_and_why
from syncpod.lifecycle import backoff
from syncpod.lifecycle.backoff import BackoffStore
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import (
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
"""The largest number of pods' workflows that get an order at the same time."""
_RETRY_SECONDS: Final = 1.0
"""After the server did not answer, which is no fault of the pod."""
_QUICK_SECONDS: Final = (0.2, 0.4)
"""Between the first tries where a workflow has not answered, or has just ended; the back-off comes after them."""
_LONGEST_MESSAGE: Final = 300
_ORIGIN: Final = frozenset((SOURCE_ANNOTATION, SEEN_ANNOTATION))


class Listing(NamedTuple):
    """The pods that a source desires now."""

    pods: tuple[dict[str, Any], ...]
    """v1 Pods with their defaults and UIDs."""
    kept: tuple[PodKey, ...]
    """Pods that stay as they are in any case: the source has them, but not in a form that can be read."""
    problems: tuple[str, ...]
    """The source's problems, one sentence each."""
    named: frozenset[PodKey] = frozenset()
    """Pods whose UIDs stay the same when the source changes them."""
    replaced: frozenset[PodKey] = frozenset()
    """Pods that the source did not have for a while since the last listing: what runs of them ends first."""


class Orders(Protocol):
    """Tells pods' workflows: `syncpod.temporal.pod_orders.PodOrders`. Both methods raise what goes wrong."""

    async def apply(self, request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        """Have a pod run. Nothing is sent before `require` has returned."""

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        """Have a pod end."""


@dataclass(eq=False)
class _Pod:
    key: PodKey
    document: Mapping[str, Any] | None = None
    """The pod as the source has it now; None = it has none."""
    kept: bool = False
    """The pod stays as it is."""
    sent_document: Mapping[str, Any] | None = None
    """The document that its workflow has; None while that is not known."""
    is_assumed: bool = False
    """`sent_document` is the one from an earlier life of the worker, by assumption; its next state shows the truth."""
    ends_first: bool = False
    """Its pod with the same UID ends, and begins anew (pod_workers.go, v1.36, restartRequested)."""
    uids: tuple[str, ...] = ()
    """UIDs of the source's pods that may run under the name, the newest last."""
    seen: dict[str, str] = field(default_factory=dict)
    """When the node first saw the pod with a UID, by the pod's annotation."""
    sending: asyncio.Task[None] | None = None
    retry_timer: asyncio.TimerHandle | None = None
    """Looks at it again when its back-off ends."""
    tries: int = 0
    """How many tries in a row were not answered."""

    @property
    def name(self) -> str:
        return f"{self.key.namespace}/{self.key.name}"

    @property
    def uid(self) -> str:
        """The UID that it should have, else the one that it may still have."""
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
        known: Callable[[], list[ObjectMeta]],
        require: Callable[[], Awaitable[None]],
    ) -> None:
        """Give orders by `orders`; `require` raises RPCError if the server is not the node's.

        `source` is the name of the source, as the pods' annotation has it.
        `known` returns the metadata of each pod whose workflow this worker has seen, as it published it last.
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
        self._there: dict[str, str] = {}
        """By workflow: the UIDs of pods that ran before the source was read, until the source has told of each."""
        self.is_read = False
        """Whether the source has been read in this life of the worker: before that, no pod ends."""
        self.news = asyncio.Event()
        """Set whenever `report` may return something new."""

    # --- what is learned ----------------------------------------------------------------------------------------------

    async def take(self, listing: Listing) -> None:
        """Begin to make the pods what the source lists now. Raises RPCError the first time: it is to be repeated.

        That time the server is asked which pods have workflows already. They go on and get no order, except those that
        are `named`: only their workflows know whether the source still lists the same. The state that such a workflow
        publishes shows that, if the source numbers its changes (`generation`). Otherwise it gets an order.
        """
        wanted = {_key(each["metadata"]): each for each in listing.pods}
        if not self.is_read and (wanted or listing.kept):
            self._there = await self._workflows.open()
        for key in {**dict.fromkeys(wanted), **dict.fromkeys(listing.kept), **dict.fromkeys(self._pods)}:
            pod = self._pods.setdefault(key, _Pod(key))
            document, pod.kept = wanted.get(key), key in listing.kept
            if document != pod.document:
                pod.document = document
                self._forget_backoff(pod)
            if document is not None and self._there.pop(_workflow_id(key), "") == _uid(document):
                self._assume(pod, document, is_named=key in listing.named)
            pod.ends_first = _uid(document) in pod.uids and (pod.ends_first or key in listing.replaced)
        if not self.is_read:
            self.is_read = True
            for meta in self._known():
                self.published(meta)
        for pod in list(self._pods.values()):
            self._look(pod)
        self.news.set()

    def _assume(self, pod: _Pod, document: Mapping[str, Any], *, is_named: bool) -> None:
        """Take that a pod's workflow has a document from an earlier life of the worker, as far as that can be known."""
        if is_named and "generation" not in document["metadata"]:
            return
        pod.sent_document, pod.uids, pod.is_assumed = document, (_uid(document),), is_named
        for meta in self._known() if is_named and self.is_read else ():
            if PodKey(namespace=meta.namespace, name=meta.name) == pod.key:
                self._compare(pod, meta)

    def published(self, meta: ObjectMeta) -> None:
        """Take what a pod's workflow has published. It ends if the source lists no pod of its name, or another one."""
        if not self.is_read or list_of(meta) != self._source:
            return
        key = PodKey(namespace=meta.namespace, name=meta.name)
        pod = self._pods.get(key)
        if pod is not None:
            pod.seen.setdefault(meta.uid, meta.annotations.get(SEEN_ANNOTATION, ""))
            self._compare(pod, meta)
        if meta.deletion_timestamp is not None or (pod is not None and meta.uid in pod.uids):
            return
        pod = self._pods.setdefault(key, _Pod(key))
        pod.uids = (meta.uid, *pod.uids)
        if pod.document is not None and _uid(pod.document) != meta.uid:
            pod.sent_document = None  # despite its order, another pod has its name
        self._forget_backoff(pod)
        self._look(pod)

    def _compare(self, pod: _Pod, meta: ObjectMeta) -> None:
        """Compare a workflow's document with the one that an earlier life of the worker gave it."""
        if not pod.is_assumed or pod.sent_document is None or meta.uid != _uid(pod.sent_document):
            return
        pod.is_assumed = False
        if not _is_of(meta, pod.sent_document):
            pod.sent_document = None
            self._look(pod)

    def gone(self, meta: ObjectMeta, *, is_followed: bool) -> None:
        """Take that a pod's workflow has ended; if it `is_followed`, another pod of that name begins in its place."""
        pod = self._pods.get(PodKey(namespace=meta.namespace, name=meta.name))
        if pod is None:
            return
        self._there.pop(_workflow_id(pod.key), None)
        if not is_followed or pod.uid != meta.uid:
            pod.uids = tuple(uid for uid in pod.uids if uid != meta.uid)
        if not is_followed and pod.sent_document is not None and _uid(pod.sent_document) == meta.uid:
            self._was_ended(pod)
        self._forget_backoff(pod)  # the name may have been another pod's
        self._look(pod)

    async def find_ended(self) -> None:
        """Find the pods whose workflows have ended without publishing it. Raises RPCError."""
        sent = [pod for pod in self._pods.values() if pod.sent_document is not None and pod.sending is None]
        is_open = await self._workflows.open() if sent else {}
        for pod in sent:
            document = pod.sent_document
            if document is None or _workflow_id(pod.key) in is_open:
                continue
            standing = await self._workflows.standing(PodRef(**pod.key.model_dump(), uid=_uid(document)))
            if standing in ("closed", "unknown") and pod.sent_document is document and pod.sending is None:
                self._was_ended(pod)
                self._look(pod)

    def _was_ended(self, pod: _Pod) -> None:
        pod.sent_document = None
        if pod.document is not None:
            self._ended_by_others[pod.key] = None
        self.news.set()

    # --- what is done about it ----------------------------------------------------------------------------------------

    def _order(self, pod: _Pod) -> ApplyPodWorkflow | DeletePodWorkflow | None:
        """Return what to tell a pod's workflow now, regardless of back-offs; None if the pod is as it should be."""
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

    def _look(self, pod: _Pod) -> None:
        """Begin to send a pod's workflow its order, unless that is under way or held back."""
        if pod.sending is not None or pod.retry_timer is not None:
            return
        if self._order(pod) is not None:
            pod.sending = asyncio.create_task(self._tell(pod), name=f"pod {pod.name} of {self._source}")
        elif pod.document is None and not pod.kept:
            self._forget_backoff(pod)
            del self._pods[pod.key]
            self.news.set()

    async def _tell(self, pod: _Pod) -> None:
        retry = None
        try:
            async with self._room:
                retry = await self._told(pod)
        finally:
            pod.sending = None
            self.news.set()
        if retry is not None:
            pod.retry_timer = asyncio.get_running_loop().call_later(retry, self._retry, pod)
        else:
            self._look(pod)

    async def _told(self, pod: _Pod) -> float | None:
        """Send a pod's workflow the order that is due now; return after how many seconds that is to be repeated."""
        order, document = self._order(pod), pod.document
        if order is None:
            return None
        if isinstance(order, ApplyPodWorkflow):
            # From now on the pod may run, even if no answer comes.
            pod.uids = (*(uid for uid in pod.uids if uid != _uid(document)), _uid(document))
        if isinstance(order, DeletePodWorkflow) or order.replaces:
            pod.sent_document = None  # if the pod of its last order ends from now on, nobody else has ended it
        try:
            if isinstance(order, ApplyPodWorkflow):
                result = await self._orders.apply(order, require=self._require)
            else:
                await self._require()
                result = await self._orders.end(order)
        except RPCError as error:
            log.warning("the workflow of pod %s cannot be told: %s", pod.name, error.message)
            return _RETRY_SECONDS
        except Exception as error:  # noqa: BLE001  # no other pod of the source waits for it
            pod.tries += 1
            if pod.tries <= len(_QUICK_SECONDS):
                return _QUICK_SECONDS[pod.tries - 1]
            return self._failed(pod, order, type(error).__name__, _text(error))
        if result.refused and isinstance(order, ApplyPodWorkflow):
            return self._failed(pod, order, "Refused", result.refused)
        self._backoff, pod.tries = backoff.forget(self._backoff, pod.name), 0
        if isinstance(order, ApplyPodWorkflow):
            over, pod.sent_document = order.replaces, document
        else:
            over, pod.sent_document, pod.ends_first = order.uids, None, False
        pod.uids = tuple(uid for uid in pod.uids if uid not in over)
        pod.seen = {uid: at for uid, at in pod.seen.items() if uid in pod.uids}
        return None

    def _failed(self, pod: _Pod, order: ApplyPodWorkflow | DeletePodWorkflow, reason: str, why: str) -> float | None:
        """Note why an order has failed; return the back-off in seconds, None if it would be another order by now."""
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
        self._look(pod)

    def _forget_backoff(self, pod: _Pod) -> None:
        """Have the next order given at once: something has changed."""
        self._backoff = backoff.forget(self._backoff, pod.name)
        if pod.retry_timer is not None:
            pod.retry_timer.cancel()
            pod.retry_timer = None

    async def close(self) -> None:
        """Cancel what is under way; the next worker does what is left to do."""
        sending = [pod.sending for pod in self._pods.values() if pod.sending is not None]
        for pod in self._pods.values():
            self._forget_backoff(pod)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    # --- the list of it -----------------------------------------------------------------------------------------------

    def report(self) -> tuple[DesiredPod, ...]:
        """Return the pods that the source asks for, and those whose workflows have no order to end yet."""
        return tuple(self._reported(pod) for _, pod in sorted(self._pods.items(), key=lambda each: each[1].name))

    def take_ended_by_others(self) -> tuple[PodKey, ...]:
        """Return the pods that somebody else had ended since this was called last."""
        ended, self._ended_by_others = tuple(self._ended_by_others), {}
        return ended

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
    """Return what may be shown of an error: the text of an unknown one may have the pod's spec."""
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


def _workflow_id(key: PodKey) -> str:
    return pod_workflow_id(key.namespace, key.name)


def with_origin(document: Mapping[str, Any], source: str, seen: str) -> dict[str, Any]:
    """Return a document with the annotations for its source, and for the time at which the node first saw the pod.

    In the kubelet, that time does not survive a restart (config/config.go, v1.36, updatePodsFunc).
    """
    metadata = document["metadata"]
    origin = {SOURCE_ANNOTATION: source, SEEN_ANNOTATION: seen}
    return {**document, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **origin}}}
