"""``syncpod edit``: change a pod in an editor."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Namespace, PodNames

_EDITORS = ("KUBE_EDITOR", "EDITOR")


def edit(
    what: PodNames = None,
    namespace: Namespace = "default",
    editor: Annotated[
        str, typer.Option("--editor", metavar="COMMAND", help="The editor.", show_default="$KUBE_EDITOR, $EDITOR, vi")
    ] = "",
) -> None:
    """Change a pod in an editor.

    The pod may change as with `apply`. A change that cannot be applied is kept in the file, whose name is printed.
    """
    name = pod_name(what or [])
    command = editor or next((text for each in _EDITORS if (text := os.environ.get(each, ""))), "vi")
    from syncpod.cli.actions.edit import edit_pod

    edit_pod(namespace, name, command)
