"""The work of ``syncpod delete``: delete pods, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from syncpod.cli import deletion
from syncpod.cli.failure import Failure, together
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest
from syncpod.cli.machine.own_objects import OwnObjects
from syncpod.cli.orphans.forced_deletion import leave_order
from syncpod.cli.temporal import session
from syncpod.cli.temporal.own_pods import OwnPods


def do_all(deeds: Sequence[Callable[[], int]]) -> int:
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


def delete_pods(request: DeletionRequest, how: Deleting, grace: int | None) -> int:
    """Delete pods, and return the exit code. Raises Failure."""
    return session.run(lambda client: deletion.delete(OwnPods(client, how, grace, leave_order), request, how))


def delete_objects(request: DeletionRequest, how: Deleting) -> int:
    """Delete this machine's ConfigMaps and Secrets, and return the exit code. Raises Failure."""
    return asyncio.run(deletion.delete(OwnObjects(), request, how))
