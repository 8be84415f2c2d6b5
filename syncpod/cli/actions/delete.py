"""Deletes pods of nodes without a fleet, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from syncpod.cli import deletion
from syncpod.cli.console import remark
from syncpod.cli.failure import Failure, together
from syncpod.cli.input.deletion_request import Deleting, DeletionRequest, Thing
from syncpod.cli.input.kind_words import OBJECTS
from syncpod.cli.input.manifests import named_in
from syncpod.cli.machine.own_objects import OwnObjects
from syncpod.cli.orphans.forced_deletion import leave_order
from syncpod.cli.temporal import session
from syncpod.cli.temporal.own_pods import OwnPods


def delete_things(request: DeletionRequest, how: Deleting, grace: int | None = None) -> None:
    """Delete pods with `grace` seconds, None = each pod's own grace period, and then ConfigMaps and Secrets.

    Prints a note if there were none. A failed deletion does not stop the others. Raises Failure.
    """
    pods, objects = request.of(["Pod"]), request.of(list(OBJECTS.values()))

    def delete_pods() -> int:
        return session.run(lambda client: deletion.delete(OwnPods(client, how, grace, leave_order), pods, how))

    def delete_objects() -> int:
        return asyncio.run(deletion.delete(OwnObjects(), objects, how))

    deeds = [delete_pods] if pods.kinds else []
    deeds += [delete_objects] if objects.kinds else []
    if not _do_all(deeds):
        remark("No resources found")


def things_in_manifests(filename: Sequence[str], namespace: str) -> list[Thing]:
    """Return the pods, ConfigMaps and Secrets that the manifests name. Raises BadInput."""
    pods, objects = named_in(filename, namespace)
    return [Thing("Pod", *pod) for pod in pods] + [Thing(each.kind, each.namespace, each.name) for each in objects]


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
