"""``syncpod patch``: change fields of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.options import Namespace, PodNames
from syncpod.cli.input.patches import merged, patched, strategically_merged

if TYPE_CHECKING:
    from temporalio.client import Client

_TYPES = ("strategic", "merge", "json")


def patch(
    what: PodNames = None,
    text: Annotated[str, typer.Option("--patch", "-p", metavar="PATCH", help="The patch, as JSON or YAML.")] = "",
    file: Annotated[str, typer.Option("--patch-file", metavar="FILE", help="A file with the patch.")] = "",
    kind: Annotated[
        str, typer.Option("--type", metavar="strategic|merge|json", help="The kind of patch.")
    ] = "strategic",
    namespace: Namespace = "default",
) -> None:
    """Change fields of a pod.

    A pod may change as with `apply`. A strategic patch merges containers by their names and volume mounts by their
    paths; a merge patch (RFC 7386) replaces every list; a JSON patch (RFC 6902) is a list of operations.
    """
    from syncpod.cli.several import do_all
    from syncpod.cli.temporal import session

    names = pod_names(what or [])
    if not names or bool(text) == bool(file):
        raise BadInput("name a pod, and the patch with -p or --patch-file")
    if kind not in _TYPES:
        raise BadInput(f"--type: must be {', '.join(_TYPES)}, not {kind}")
    from syncpod.cli.actions.patch import read_patch

    given = read_patch(text, file)
    if kind != "json" and not isinstance(given, dict):
        raise BadInput("--patch: must be an object")
    how = {"strategic": strategically_merged, "merge": merged, "json": patched}[kind]

    def change(document: dict[str, Any]) -> dict[str, Any]:
        try:
            changed: dict[str, Any] = how(document, given)
        except ValueError as wrong:
            raise BadInput(f"--patch: {wrong}") from None
        return changed

    async def work(client: Client) -> None:
        async def one(name: str) -> None:
            from syncpod.cli.temporal.pod_change import change_pod
            from syncpod.messages.pod_commands import Change

            done = await change_pod(client, namespace, name, change)
            say(f"pod/{name} patched{' (no change)' if done is Change.UNCHANGED else ''}")

        await do_all([one(name) for name in names], at_once=len(names))

    session.run(work)
