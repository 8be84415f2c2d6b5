"""``syncpod edit``: change a pod in an editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import pod_name
from syncpod.cli.input.options import Namespace, PodNames

if TYPE_CHECKING:
    from temporalio.client import Client

_EDITORS = ("KUBE_EDITOR", "EDITOR")
_APART = ("status",)
"""Fields that are not shown, because users cannot change them."""


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
    from syncpod.cli.temporal import session
    from syncpod.yaml_text import yaml_text

    name = pod_name(what or [])
    command = editor or next((text for each in _EDITORS if (text := os.environ.get(each, ""))), "vi")

    async def read(client: Client) -> dict[str, Any]:
        from syncpod.cli.temporal.pods import require_pod

        return (await require_pod(client, namespace, name)).document

    document = session.run(read)
    shown = {key: value for key, value in document.items() if key not in _APART}
    text = yaml_text(shown)
    path = _edited(text, command, name)
    if path.read_text() == text:
        path.unlink()
        remark("Edit cancelled, no changes made.")
        return
    from syncpod.cli.actions.edit import apply_edited

    try:
        apply_edited(path, namespace, name)
    except Failure as failure:
        raise Failure(f"{failure}\nyour changes are kept in {path}", failure.code) from None
    path.unlink()


def _edited(text: str, command: str, name: str) -> Path:
    """Open the text in the editor, and return the file with the result. Raises Failure if the editor fails."""
    handle, path = tempfile.mkstemp(prefix=f"syncpod-edit-{name}-", suffix=".yaml")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    try:
        done = subprocess.run([*shlex.split(command), path], check=False)
    except OSError as error:
        Path(path).unlink()
        raise BadInput(f"{command}: {error.strerror}: name an editor with --editor or in EDITOR") from None
    if done.returncode:
        raise Failure(f"{command} ended with {done.returncode}; your changes are kept in {path}")
    return Path(path)
