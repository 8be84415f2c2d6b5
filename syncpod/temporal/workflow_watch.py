"""Reports to the node's agent the state that each workflow task publishes, and each task that fails.

The SDK has no hook for a failed workflow task, so the runner is wrapped: the wrapper receives each activation and its
result. The SDK evicts a run after each failed task: a history could not be replayed, an exception was raised, or code
did not return in time. So evictions for such a reason are reported as failures.

The wrapper also frees an evicted instance, which the SDK leaves to the garbage collector.

And it keeps queries from spoiling a run. For a query of a run that is not cached, the server sends the whole history,
perhaps with signals that no workflow task has taken yet. The SDK (1.35) delivers these signals to the workflow at the
time of the last completed task, not as a replay, and then keeps the instance for the next task. So its commands become
history, although a replay at the right time may produce other commands. Such an activation is refused here, so that the
query fails and the instance is evicted (docs/engineering/internals.md). A run that has ended, perhaps by a reset, never
takes these signals. They are withheld from its instance, which answers with the state after the last task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_activation import RemoveFromCache, WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import Info

from syncpod.messages.queries import PodSummary
from syncpod.messages.reads import NodeReads, PodReads
from syncpod.temporal.one_activation import WrappedInstance
from syncpod.temporal.pods_page import pods_page
from syncpod.temporal.published.lives import EndsLives, PublishedLife
from syncpod.temporal.published.records import Records
from syncpod.temporal.queries import AHEAD
from syncpod.temporal.signing import REFUSAL, numbered

TOO_OLD: Final = "TooOld"
"""The failure of a run that this worker refuses on purpose, because another version of the program can continue it."""
CANNOT_NOTE: Final = "the node cannot record the run that a workflow start has begun"
"""The beginning of a task's failure if the node cannot record the run, as on a full disk. The task is retried."""
WAS_RESET: Final = "the run was reset, and a node whose commands are signed does not go on with such a run"
"""The failure of each task of a reset run, since the run has another run's start. Its workflow is started anew."""
_WORKFLOW: Final = "_object"
"""The attribute of the SDK's instance that has the workflow (temporalio 1.35)."""
_ON_ERROR: Final = "call_exception_handler"
"""The method that asyncio calls if a callback has raised an error. It is the event loop's, which is the SDK's
instance."""
_NOT_TAKEN: Final = "Error reporting WFT to server"
"""The SDK's message for a task whose result was refused: by the SDK itself, for its size, or by the server."""
_FAILURES: Final = frozenset(
    (
        RemoveFromCache.EvictionReason.NONDETERMINISM,
        RemoveFromCache.EvictionReason.LANG_FAIL,
        RemoveFromCache.EvictionReason.FATAL,
    )
)


class Published(PublishedLife, PodReads, NodeReads, Records, EndsLives, Protocol):
    """The state of a run at the end of one of its tasks. It never changes, and may be read in any thread."""

    @property
    def at(self) -> datetime:
        """The workflow's time at the end of the task."""

    @property
    def history_length(self) -> int:
        """Number of the newest event that the state includes."""

    @property
    def is_unready(self) -> bool:
        """Whether it is a pod that is not ready and has not Succeeded."""

    @property
    def replacing(self) -> Collection[str]:
        """The runtime ids of its containers that are killed to be replaced, regardless of their restart policy."""

    def summary(self) -> PodSummary | None:
        """Return the pod's entry in a page of pods; None if this is not a pod's state."""

    def next_input(self) -> dict[str, Any]:
        """Return the input of a run that continues from this state, as JSON: the same as for continue-as-new."""


class WorkflowWatch(Protocol):
    """The agent's side of workflow tasks. The threads of these tasks call its methods."""

    def pods(self) -> Sequence[Published]:
        """Return the newest state of each pod whose workflow has had a task on this worker."""

    def published(self, workflow_id: str, run_id: str, published: Published) -> None:
        """Receive the state that a successful task has published."""

    def task_failed(self, workflow_id: str, run_id: str, why: str) -> None:
        """Note that a task of this run has failed here."""

    def has_ended(self, workflow_id: str, run_id: str) -> bool:
        """Return whether this run is known to have ended. If that is unknown, it is looked up for the next call."""


Begun = Callable[[str, str, int], str]
"""Returns why a run must not begin, given its workflow's id, its own id and its start's number; "" if it may."""


class WatchedRunner(WorkflowRunner):
    """Runs workflows with another runner, and reports the results of their tasks."""

    def __init__(self, inner: WorkflowRunner, watch: WorkflowWatch, begun: Begun | None = None) -> None:
        """Report to `watch`; if starts are signed, `begun` decides which of them may begin a run."""
        self._inner = inner
        self._watch = watch
        self._begun = begun
        self._staged: dict[str, Published] = {}

    def stage(self, run_id: str, published: Published) -> None:
        """Keep the state that a workflow publishes until its task has succeeded."""
        self._staged[run_id] = published

    def pods_page(self) -> str:
        """Return the part of a node's page that lists its pods in their newest states."""
        return pods_page(self._watch.pods())

    def prepare_workflow(self, defn: Any) -> None:
        """Call the inner runner."""
        self._inner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        """Call the inner runner."""
        self._inner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the inner runner's instance, watched."""
        return _Watched(self._inner.create_instance(det), det.info, self._staged, self._watch, self._begun)


class _Watched(WrappedInstance):
    def __init__(
        self,
        inner: WorkflowInstance,
        info: Info,
        staged: dict[str, Published],
        watch: WorkflowWatch,
        begun: Begun | None,
    ) -> None:
        super().__init__(inner)
        self._watch, self._staged, self._begun = watch, staged, begun
        self._workflow_id, self._run_id = info.workflow_id, info.run_id
        self._was_reset = info.original_execution_run_id != info.run_id
        self._failure = ""
        self._reached = (0, 0)
        """The time of the newest task, in nanoseconds, and its history's length."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if self._runs_ahead(act):
            # Replay: an instance that lacks signals must not receive another task. An ended run receives none.
            is_over = self._watch.has_ended(self._workflow_id, self._run_id)
            return _nothing_done(act) if is_over else self._not_now(act, AHEAD)
        try:
            is_copy = self._refuse_copies(act)
        except OSError as error:
            return self._not_now(act, f"{CANNOT_NOTE}: {error.strerror}")
        if is_copy and self._was_reset:  # if the run ended, its pod would have no workflow
            return self._not_now(act, WAS_RESET)
        if any(job.HasField("remove_from_cache") for job in act.jobs):
            vars(self._inner)[_ON_ERROR] = _forget_error
        completion = self._inner.activate(act)
        if completion.HasField("failed"):
            self._staged.pop(self._run_id, None)
            failure = completion.failed.failure
            type_, text = failure.application_failure_info.type, _text(failure)
            self._failure = f"{type_}: {text}" if type_ else text
        elif self._run_id in self._staged:
            self._watch.published(self._workflow_id, self._run_id, self._staged.pop(self._run_id))
        for job in act.jobs:
            if job.HasField("remove_from_cache"):
                if job.remove_from_cache.reason in _FAILURES:
                    self._failed(job.remove_from_cache)
                _free(self._inner)
        return completion

    def _runs_ahead(self, act: WorkflowActivation) -> bool:
        """Say whether an activation has events that no task has taken yet: more history, at the time of the last task.

        Each task has its own time, and all activations of a task have the same length of history.
        """
        before, self._reached = self._reached, (act.timestamp.ToNanoseconds(), act.history_length)
        is_more = before[0] == self._reached[0] != 0 and before[1] < self._reached[1]
        return is_more and not act.is_replaying and not all(job.HasField("query_workflow") for job in act.jobs)

    def _not_now(self, act: WorkflowActivation, why: str) -> WorkflowActivationCompletion:
        """Return the failure of a task that is retried; it does not count against the run."""
        self._failure = why
        refused = WorkflowActivationCompletion(run_id=act.run_id)
        refused.failed.failure.message = why
        return refused

    def _refuse_copies(self, act: WorkflowActivation) -> bool:
        """Mark the start of a beginning run as refused if it is a copy; return whether it is.

        Raises OSError if the start cannot be recorded.
        """
        found = False
        for job in act.jobs:
            if self._begun is not None and job.HasField("initialize_workflow"):
                for start in job.initialize_workflow.arguments:
                    found = self._is_copy(start, self._begun) or found
        return found

    def _is_copy(self, start: Payload, begun: Begun) -> bool:
        """Mark a start as refused if another run began with it; return whether one did.

        Replay: the result for a run does not change, so the run refuses its start at each replay, or never.
        """
        number = numbered(start)
        if number and (why := begun(self._workflow_id, self._run_id, number)):
            start.metadata[REFUSAL] = why.encode()
            return True
        return False

    def _failed(self, eviction: RemoveFromCache) -> None:
        self._staged.pop(self._run_id, None)
        why, self._failure = self._failure or _eviction_reason(eviction), ""
        if why != AHEAD and not why.startswith((TOO_OLD, CANNOT_NOTE)):
            self._watch.task_failed(self._workflow_id, self._run_id, why)


def _free(evicted: WorkflowInstance) -> None:
    """Free the objects of an instance that gets no further activation, and those of its workflow.

    The workflow and its entity refer to one another, and the interceptors and contexts of an instance refer to the
    instance. These cycles would keep all of them, with the pod's whole state, until the garbage collector runs on them,
    which takes hours in a worker. The instance's flags stay, since a future that is freed later reads from its event
    loop, which is the instance, whether the instance is being deleted.
    """
    attributes = vars(evicted)
    workflow = attributes.get(_WORKFLOW)
    for name in [name for name, value in attributes.items() if not isinstance(value, bool)]:
        del attributes[name]
    if workflow is not None:
        vars(workflow).clear()


def _forget_error(context: dict[str, Any]) -> None:
    """Ignore an error that a callback of an evicted instance has raised, and break the error's reference cycle.

    An eviction cancels the workflow's timers, each of which then raises an error. asyncio's frame refers to the error's
    context, the context to the error, and the error's traceback to the frame and to the whole activation: 11 KiB for
    each pod whose workflow ends while an alarm is set. The SDK ignores the error too, but leaves the context as it is.
    """
    context.clear()


def _nothing_done(act: WorkflowActivation) -> WorkflowActivationCompletion:
    """Return the success of an activation that did nothing."""
    completion = WorkflowActivationCompletion(run_id=act.run_id)
    completion.successful.SetInParent()
    return completion


def _text(failure: Failure) -> str:
    """Return the message of a failure that has not passed the codec: it may be in the encoded attributes."""
    if failure.HasField("encoded_attributes"):
        with suppress(ValueError, KeyError, TypeError):
            return str(json.loads(failure.encoded_attributes.data)["message"])
    return failure.message


def _eviction_reason(eviction: RemoveFromCache) -> str:
    """Return why a run was evicted: the SDK's sentence, without the structures that its core prints around it."""
    if eviction.message == _NOT_TAKEN:
        return "the server did not take the result of its task, which may be too large (the worker's log says more)"
    sentence = re.search(r'\[TMPRL\d+\] [^"]+', eviction.message)
    return sentence.group() if sentence else eviction.message
