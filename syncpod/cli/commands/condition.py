"""``syncpod condition``: set a condition of a pod that its node does not set itself, such as a readiness gate."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Namespace, kinds_of

_STATUSES: Final = {status.lower(): status for status in ("True", "False", "Unknown")}


def condition(
    what: Annotated[
        list[str], typer.Argument(metavar="POD TYPE=STATUS", hidden=True, show_default=False, callback=kinds_of)
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="WORD", help="Why, in one word: Registered.")] = "",
    message: Annotated[str, typer.Option("--message", metavar="TEXT", help="Why, in a sentence.")] = "",
    namespace: Namespace = "default",
) -> None:
    """Set a condition of a pod: True, False or Unknown.

    A pod whose spec.readinessGates names the type is Ready only while the condition is True:

    `condition web example.com/load-balanced=True --reason Registered`

    Any other condition is only shown with the pod. Conditions that the node sets (Ready, Initialized, ...) are refused.
    """
    *names, assignment = what
    type_, status = _assigned(assignment)
    name = pod_name(names)
    payload = {"type": type_, "status": status, "reason": reason, "message": message}
    from syncpod.cli.actions.condition import set_condition

    set_condition(namespace, name, payload)


def _assigned(text: str) -> tuple[str, str]:
    """Return type and status of ``TYPE=STATUS``. Raises BadInput."""
    type_, equals, word = text.rpartition("=")
    if not equals or not type_:
        raise BadInput(f"{text}: say TYPE=STATUS, as in example.com/load-balanced=True")
    status = _STATUSES.get(word.lower())
    if status is None:
        raise BadInput(f"{text}: the status must be True, False or Unknown")
    return type_, status
