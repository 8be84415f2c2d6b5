"""``get``, ``describe`` and ``delete`` of ConfigMaps and Secrets: this machine's, from its own directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.machine.object_store import saying_what_failed, store_to_read
from syncpod.objects import Kind, ObjectRef

if TYPE_CHECKING:
    from syncpod.cli.input.selector import Selector
    from syncpod.pod import ConfigMap, Secret


def not_there(kind: str, name: str, namespace: str) -> str:
    """Say that something is not there."""
    return f'{kind.lower()}s "{name}" not found in namespace {namespace}'


def find(
    kind: Kind, names: Sequence[str], namespace: str | None, conditions: Selector
) -> tuple[list[ConfigMap | Secret], list[str]]:
    """Return the objects named, or all that are selected; and a sentence for each that is not there. Raises Failure."""
    with saying_what_failed():
        store = store_to_read()
        if not names:
            return [one for one in store.list(kind, namespace) if conditions.matches(one.metadata.labels)], []
        looked = {name: store.get(ObjectRef(kind, namespace or "default", name)) for name in names}
    found = [one for one in looked.values() if one is not None]
    return found, [not_there(kind, name, namespace or "default") for name, one in looked.items() if one is None]


def delete_objects(refs: Sequence[ObjectRef], *, ignore_not_found: bool, mark: str = "") -> None:
    """Remove objects from the node; what pods were given of them before, they keep. Raises Failure.

    With a `mark` it is said which would be removed, with the mark behind each, and nothing is done.
    """
    absent = []
    with saying_what_failed():
        store = store_to_read()
        for ref in refs:
            if store.get(ref) is not None if mark else store.delete(ref):
                say(f"{ref} deleted{mark}")
            else:
                absent.append(not_there(ref.kind, ref.name, ref.namespace))
    if absent and not ignore_not_found:
        raise Failure("\n".join(absent))
