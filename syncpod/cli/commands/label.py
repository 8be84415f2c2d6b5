"""``syncpod label`` and ``syncpod annotate``: set and remove labels and annotations of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.input.options import Namespace, Selector, kinds_of

if TYPE_CHECKING:
    pass

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
    from syncpod.cli.actions.label import change_pods

    change_pods("labels", what or [], namespace, selector, everything=everything, overwrite=overwrite)


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
    from syncpod.cli.actions.label import change_pods

    change_pods("annotations", what or [], namespace, selector, everything=everything, overwrite=overwrite)
