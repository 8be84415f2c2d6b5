"""The work of ``syncpod label`` and ``syncpod annotate``: set and remove labels and annotations of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_names, read_selector
from syncpod.cli.several import do_all
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_change import change_pod
from syncpod.cli.temporal.pods import list_pods
from syncpod.messages.pod_commands import Change

if TYPE_CHECKING:
    from temporalio.client import Client


_AT_ONCE = 8


def change_pods(
    field: Literal["labels", "annotations"],
    words: Sequence[str],
    namespace: str,
    selector: str,
    *,
    everything: bool,
    overwrite: bool,
) -> None:
    """Change the labels or annotations of the named pods, or the selected ones. Raises BadInput, Failure."""
    pods, wanted, removed = _read(words, field)
    conditions = read_selector(selector)
    if sum([bool(pods), bool(conditions.requirements), everything]) != 1:
        raise BadInput("name pods, or choose them with --selector or --all")

    async def work(client: Client) -> None:
        names = pods or [one.key[1] for one in await list_pods(client, namespace, conditions)]
        if not names:
            remark(f"No resources found in {namespace} namespace.")
        deeds = [_change_one(client, namespace, name, field, wanted, removed, overwrite) for name in names]
        await do_all(deeds, at_once=_AT_ONCE)

    session.run(work)


async def _change_one(
    client: Client,
    namespace: str,
    name: str,
    field: str,
    wanted: dict[str, str],
    removed: set[str],
    overwrite: bool,
) -> None:
    def change(document: dict[str, Any]) -> dict[str, Any]:
        known: dict[str, str] = document["metadata"].get(field) or {}
        if not overwrite and (taken := [key for key, value in wanted.items() if known.get(key, value) != value]):
            key = taken[0]
            raise Failure(f'pod "{name}": {field[:-1]} {key} is {known[key]!r} already: --overwrite replaces it')
        document["metadata"][field] = {key: value for key, value in (known | wanted).items() if key not in removed}
        return document

    changed = await change_pod(client, namespace, name, change) is not Change.UNCHANGED
    verb = {"labels": "labeled", "annotations": "annotated"}[field]
    if removed and not wanted:
        verb = f"un{verb}"
    say(f"pod/{name} {verb if changed else f'not {verb}'}")


def _read(words: Sequence[str], field: str) -> tuple[list[str], dict[str, str], set[str]]:
    """Parse ``pod web a=b c-``: return the pods, the values to set, and the keys to remove. Raises BadInput."""
    at = next((at for at, word in enumerate(words) if "=" in word or word.endswith("-")), len(words))
    wanted: dict[str, str] = {}
    removed: set[str] = set()
    for word in words[at:]:
        key, equals, value = word.partition("=")
        if equals and key:
            wanted[key] = value
        elif word.endswith("-") and len(word) > 1 and not equals:
            removed.add(word[:-1])
        else:
            raise BadInput(f"{word!r}: write KEY=VALUE to set one of the {field}, KEY- to remove it")
    if both := wanted.keys() & removed:
        raise BadInput(f"{min(both)}: either set or removed, not both")
    if not wanted and not removed:
        raise BadInput(f"say which {field} to set or remove: KEY=VALUE, KEY-")
    return pod_names(words[:at]) if at else [], wanted, removed
