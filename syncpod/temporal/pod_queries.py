"""Queries of visibility for pods."""

from __future__ import annotations

from syncpod.messages.identity import POD_WORKFLOW


def open_pods(namespace: str | None) -> str:
    """Return the query for the pods of a namespace, None = of all, whose workflows run."""
    # Anybody can start a workflow of this type under any id.
    ids = "pod/" if namespace is None else f"pod/{namespace}/"
    return f"WorkflowType = '{POD_WORKFLOW}' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{ids}'"
