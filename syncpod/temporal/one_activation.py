"""Gives each workflow instance one activation at a time: SDK 1.35 may evict an instance that another thread still runs.

The SDK fails a task that does not return within two seconds of wall-clock time, as happens on a busy machine, and then
evicts the run. It should wait for the task's thread first, but has already cancelled the future to wait for. Two
threads then run one event loop, which cannot enter the tasks that have to end. These never end, each later eviction
fails because of them, and the run receives no task until the worker is restarted. The SDK also begins a second eviction
beside one that takes more than two seconds.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import Info
from typing_extensions import override

_TURN_SECONDS: Final = 1.0
"""Seconds that an activation waits for the one before it. If an eviction waited for more than two seconds, the SDK
would begin another beside it, and waiting threads would pile up. A failed eviction is only repeated."""


class StillRuns(Exception):
    """Another thread runs an earlier activation of the same instance."""


class OneActivation(WorkflowRunner):
    """Runs workflows with another runner, each instance in one thread at a time."""

    def __init__(self, inner: WorkflowRunner) -> None:
        """Run workflows with `inner`."""
        self._inner = inner

    def prepare_workflow(self, defn: Any) -> None:
        """Call the inner runner."""
        self._inner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        """Call the inner runner."""
        self._inner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the inner runner's instance, which is activated in one thread at a time."""
        return _Alone(self._inner.create_instance(det))


class WrappedInstance(WorkflowInstance):
    """A workflow instance around another one, to which it passes every call that a subclass does not handle."""

    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    @override
    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return self._inner.get_serialization_context(command_info)

    @override
    def get_external_store_context(self, command_info: Any) -> Any:
        return self._inner.get_external_store_context(command_info)

    @override
    def get_info(self) -> Info:
        return self._inner.get_info()

    @override
    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


class _Alone(WrappedInstance):
    def __init__(self, inner: WorkflowInstance) -> None:
        super().__init__(inner)
        self._turn = threading.Lock()
        self._is_evicted = False

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            raise StillRuns("an earlier task of the workflow, which timed out, still runs")
        try:
            if self._is_evicted:
                completion = WorkflowActivationCompletion(run_id=act.run_id)
                completion.successful.SetInParent()
                return completion
            completion = self._inner.activate(act)
            self._is_evicted = any(job.HasField("remove_from_cache") for job in act.jobs)
            return completion
        finally:
            self._turn.release()
