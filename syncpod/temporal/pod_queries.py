"""Queries of visibility for pods."""

from __future__ import annotations

from syncpod.messages.identity import POD_WORKFLOW


def open_pods(namespace: str | None) -> str:
    """Return the query for the pods of a namespace, None = of all, whose workflows run."""
    query = f"WorkflowType = '{POD_WORKFLOW}' AND ExecutionStatus = 'Running'"
    return query if namespace is None else f"{query} AND WorkflowId STARTS_WITH 'pod/{namespace}/'"
