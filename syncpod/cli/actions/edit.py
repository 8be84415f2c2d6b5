"""Changes a pod in an editor: writes it to a file, and applies the file that the editor leaves."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.node_api import reached_document
from syncpod.cli.orphan_notes import without_workflow
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_change import change_pod
from syncpod.node.orphan_mark import why_orphaned
from syncpod.pod import ManifestError, read_documents
from syncpod.yaml_text import yaml_text

if TYPE_CHECKING:
    from temporalio.client import Client

_APART = ("status",)
"""Fields that are not shown, because users cannot change them."""


def edit_pod(namespace: str, name: str, command: str) -> None:
    """Open a pod in the editor `command`, and apply the result.

    Raises BadInput and Failure; a change that is not applied is kept in the file, which the message names.
    """
    document = reached_document(namespace, name)
    if why_orphaned(document):
        raise Failure(f'pod "{name}" {without_workflow(document)}')
    shown = {key: value for key, value in document.items() if key not in _APART}
    text = yaml_text(shown)
    path = _edited(text, command, name)
    if path.read_text() == text:
        path.unlink()
        remark("Edit cancelled, no changes made.")
        return
    try:
        _apply(path, namespace, name)
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


def _apply(path: Path, namespace: str, name: str) -> None:
    """Apply the pod in the file. Raises BadInput, Failure."""
    try:
        found = [document for _, document in read_documents(path.read_bytes(), source=str(path))]
    except ManifestError as wrong:
        raise BadInput(str(wrong)) from None
    if len(found) != 1 or not isinstance(found[0], dict):
        raise BadInput(f"{path}: must be one Pod")

    async def work(client: Client) -> None:
        await change_pod(client, namespace, name, lambda _: found[0])

    session.run(work)
    say(f"pod/{name} edited")
