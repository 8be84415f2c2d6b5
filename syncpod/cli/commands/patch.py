"""``syncpod patch``: change fields of pods."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.failure import BadInput
from syncpod.cli.input.arguments import pod_names
from syncpod.cli.input.options import Namespace, PodNames

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
    names = pod_names(what or [])
    if not names or bool(text) == bool(file):
        raise BadInput("name a pod, and the patch with -p or --patch-file")
    if kind not in _TYPES:
        raise BadInput(f"--type: must be {', '.join(_TYPES)}, not {kind}")
    from syncpod.cli.actions.patch import patch_pods

    patch_pods(namespace, names, kind, text, file)
