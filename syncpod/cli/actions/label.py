"""Sets and removes labels or annotations of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from syncpod.api.label_selector import Selector
from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.input.key_changes import KeyChange
from syncpod.cli.several import do_all
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_change import change_pod
from syncpod.cli.temporal.pod_source import TemporalPods
from syncpod.messages.pod_commands import Change

if TYPE_CHECKING:
    from temporalio.client import Client


_AT_ONCE: Final = 8


def change_keys(namespace: str, pods: Sequence[str], conditions: Selector, change: KeyChange) -> None:
    """Change the labels or annotations of the named pods; without names, of all that meet the conditions.

    A failure of one pod does not stop the others. Raises BadInput, Failure.
    """

    async def work(client: Client) -> None:
        names = pods or [one.key[1] for one in await TemporalPods(client).listed(namespace, conditions)]
        if not names:
            remark(f"No resources found in {namespace} namespace.")
        await do_all([_change_one(client, namespace, name, change) for name in names], at_once=_AT_ONCE)

    session.run(work)


async def _change_one(client: Client, namespace: str, name: str, change: KeyChange) -> None:
    field, wanted, removed = change.field, change.wanted, change.removed

    def changed(document: dict[str, Any]) -> dict[str, Any]:
        known: dict[str, str] = document["metadata"].get(field) or {}
        taken = [key for key, value in wanted.items() if known.get(key, value) != value]
        if taken and not change.overwrite:
            key = taken[0]
            raise Failure(f'pod "{name}": {field[:-1]} {key} is {known[key]!r} already: --overwrite replaces it')
        document["metadata"][field] = {key: value for key, value in {**known, **wanted}.items() if key not in removed}
        return document

    is_changed = await change_pod(client, namespace, name, changed) is not Change.UNCHANGED
    verb = {"labels": "labeled", "annotations": "annotated"}[field]
    if removed and not wanted:
        verb = f"un{verb}"
    say(f"pod/{name} {verb if is_changed else f'not {verb}'}")
