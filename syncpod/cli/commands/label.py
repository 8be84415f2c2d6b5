"""``syncpod label`` and ``syncpod annotate``: set and remove labels and annotations of pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from syncpod.api.label_selector import Selector as Conditions
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import read_selector
from syncpod.cli.input.key_changes import read_key_change
from syncpod.cli.input.options import Namespace, Selector, kinds_of

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="POD KEY=VALUE|KEY-...", show_default=False, hidden=True, callback=kinds_of),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace values that are there.")]
Everything = Annotated[bool, typer.Option("--all", help="All pods of the namespace.")]


def label(
    what: Words = None,
    namespace: Namespace = "default",
    selector: Selector = "",
    everything: Everything = False,
    overwrite: Overwrite = False,
) -> None:
    """Set and remove labels of pods.

    As with kubectl: `label pod web app=front tier-` sets `app`, and removes `tier`.
    """
    pods, change = read_key_change(what or [], "labels", overwrite=overwrite)
    conditions = _conditions(pods, selector, everything=everything)
    from syncpod.cli.actions.label import change_keys

    change_keys(namespace, pods, conditions, change)


def annotate(
    what: Words = None,
    namespace: Namespace = "default",
    selector: Selector = "",
    everything: Everything = False,
    overwrite: Overwrite = False,
) -> None:
    """Set and remove annotations of pods.

    As with kubectl: `annotate pod web owner=me note-` sets `owner`, and removes `note`.
    """
    pods, change = read_key_change(what or [], "annotations", overwrite=overwrite)
    conditions = _conditions(pods, selector, everything=everything)
    from syncpod.cli.actions.label import change_keys

    change_keys(namespace, pods, conditions, change)


def _conditions(pods: Sequence[str], selector: str, *, everything: bool) -> Conditions:
    """Return the conditions of the pods. Raises BadInput unless pods are chosen in exactly one way."""
    conditions = read_selector(selector)
    if sum([bool(pods), bool(conditions.requirements), everything]) != 1:
        raise BadInput("name pods, or choose them with --selector or --all")
    return conditions
