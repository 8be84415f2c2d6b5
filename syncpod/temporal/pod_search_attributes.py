"""Pods as the server has recorded them: the search attributes of their workflows, and the query that finds them."""

from __future__ import annotations

from typing import Any, Final

from temporalio.client import WorkflowExecution
from temporalio.common import SearchAttributeKey

from syncpod.messages.identity import POD_WORKFLOW
from syncpod.pod import ObjectMeta, Pod, PodCondition, PodSpec, PodStatus

_KEYS: Final[dict[str, SearchAttributeKey[Any]]] = {
    **{
        name: SearchAttributeKey.for_keyword(name)
        for name in ("PodName", "PodNamespace", "PodUID", "PodPhase", "PodStatus", "NodeName")
    },
    "PodRestarts": SearchAttributeKey.for_int("PodRestarts"),
    "PodReady": SearchAttributeKey.for_bool("PodReady"),
    "PodLabels": SearchAttributeKey.for_keyword_list("PodLabels"),
}


def recorded_as(execution: WorkflowExecution) -> Pod:
    """Return a pod from its search attributes; without them, from its workflow's id and task queue."""
    namespace, _, name = execution.id.removeprefix("pod/").partition("/")
    labels = dict(label.split("=", 1) for label in attribute(execution, "PodLabels") or ())
    ready: PodCondition | None = None
    if (is_ready := attribute(execution, "PodReady")) is not None:
        ready = PodCondition(type="Ready", status="True" if is_ready else "False")
    return Pod(
        metadata=ObjectMeta(
            name=attribute(execution, "PodName") or name,
            namespace=attribute(execution, "PodNamespace") or namespace,
            uid=attribute(execution, "PodUID") or "",
            labels=labels,
            creation_timestamp=execution.start_time,
        ),
        spec=PodSpec(
            node_name=node_of(execution),
        ),
        status=PodStatus(phase=attribute(execution, "PodPhase"), conditions=(ready,) if ready else ()),
    )


def node_of(execution: WorkflowExecution) -> str:
    """Return the node of a pod's workflow."""
    return attribute(execution, "NodeName") or (execution.task_queue or "").removeprefix("node/")


def attribute(execution: WorkflowExecution, name: str) -> Any:
    """Return a search attribute of a pod's workflow; None if it has none of this name yet."""
    return execution.typed_search_attributes.get(_KEYS[name])


def open_pods(namespace: str | None) -> str:
    """Return the query for the pods whose workflows run, of one namespace or of all (None)."""
    # The id is checked too: anybody can start a workflow of this type under any id.
    ids = "pod/" if namespace is None else f"pod/{namespace}/"
    return f"WorkflowType = '{POD_WORKFLOW}' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{ids}'"
