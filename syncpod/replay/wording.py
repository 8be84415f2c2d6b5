"""Decisions of a workflow in words: `start container web, restart 3`, `wait 10 s`, `continue as new`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

ENDS: Final[Mapping[str, str]] = {
    "complete_workflow_execution": "end the workflow",
    "fail_workflow_execution": "fail the workflow",
    "cancel_workflow_execution": "end the workflow as cancelled",
    "continue_as_new_workflow_execution": "continue as new",
}
"""The last decision of a run, by the name that Temporal gives the command."""
OTHERS: Final[Mapping[str, str]] = {
    "cancel_timer": "end a wait early",
    "request_cancel_activity": "cancel a step",
    "upsert_workflow_search_attributes": "change the search attributes",
    "modify_workflow_properties": "change the memo",
}
"""Commands that are not decisions, by the name that Temporal gives the command."""


def step_words(name: str, given: Mapping[str, Any]) -> str:
    """Return the description of a step, from its activity's name and the JSON of its input.

    A pod's step is described by its container, number and victims; a node's step, by its pods; a fleet's, by its pods
    and its node. Nothing else of the input is shown, so no value of a manifest appears.
    """
    target = given.get("target") or {}
    if "ref" in given:
        about = [given.get("container", ""), target.get("id", ""), *given.get("ids", ())]
    else:
        about = [_pod_in(each) for each in given.get("pods") or (given,)]
    named = " ".join([name.replace("_", " "), *(part for part in about if part)])
    return ", ".join([named, *(f"{word} {given[word]}" for word in ("restart", "attempt", "node") if word in given)])


def _pod_in(given: Mapping[str, Any]) -> str:
    """Return the name of the pod in the input of a node's or a fleet's step."""
    metadata: Mapping[str, Any] = (given.get("pod") or given).get("metadata") or {}
    return str(given.get("name") or metadata.get("name", ""))


def wait_words(length: timedelta) -> str:
    """Return how long a wait is."""
    return f"wait {length.total_seconds():.6g} s"


def signal_words(name: str, workflow_id: str) -> str:
    """Return the description of a signal to another workflow."""
    return f"signal {name} to {workflow_id}"
