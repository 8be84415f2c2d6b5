"""Deletes pods of nodes without a fleet, and beside them this machine's ConfigMaps and Secrets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from syncpod.cli import deletion
from syncpod.cli.actions.delete_objects import NOTHING, end_objects
from syncpod.cli.console import remark
from syncpod.cli.failure import Failure, together
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest
from syncpod.cli.orphans.forced_deletion import leave_order
from syncpod.cli.temporal import session
from syncpod.cli.temporal.own_pods import OwnPods


def delete_things(request: DeletionRequest, how: Deleting, grace: int | None = None) -> None:
    """Delete the requested pods, then the ConfigMaps and Secrets; print a note if there were none.

    Pods get `grace` seconds; None = each pod's own grace period. A failed deletion does not stop the others. Raises
    Failure, as `deletion.delete` does.
    """

    def delete_pods() -> int:
        pods = request.of(["Pod"])
        return session.run(lambda client: deletion.delete(OwnPods(client, how, grace, leave_order), pods, how))

    has_objects = request.kinds != ["Pod"]
    number = _do_all([delete_pods, lambda: end_objects(request, how)]) if has_objects else delete_pods()
    if not number:
        remark(NOTHING)


def _do_all(deeds: Sequence[Callable[[], int]]) -> int:
    """Call each deed, and return how many objects they deleted. A deed that fails does not stop the others."""
    number, failures = 0, []
    for deed in deeds:
        try:
            number += deed()
        except Failure as failure:
            failures.append(failure)
    if failures:
        raise together(failures, done=len(failures) < len(deeds))
    return number
