"""Changes fields of pods by a patch: the patch is read, and applied to each pod as its workflow has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncpod.cli.console import say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.patches import merged, patched, strategically_merged
from syncpod.cli.several import do_all
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_change import change_pod
from syncpod.messages.pod_commands import Change
from syncpod.pod import ManifestError, read_documents

if TYPE_CHECKING:
    from temporalio.client import Client

_PATCHING: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "strategic": strategically_merged,
    "merge": merged,
    "json": patched,
}


def patch_pods(namespace: str, names: Sequence[str], kind: str, text: str, file: str) -> None:
    """Patch each pod by the text, or else by the file's content. `kind`: ``strategic``, ``merge`` or ``json``.

    A failure of one pod does not stop the others. Raises BadInput for a patch that cannot be read or does not fit a
    pod, and Failure.
    """
    given = _read_patch(text, file)
    if kind != "json" and not isinstance(given, dict):
        raise BadInput("--patch: must be an object")

    def change(document: dict[str, Any]) -> dict[str, Any]:
        try:
            changed: dict[str, Any] = _PATCHING[kind](document, given)
        except ValueError as wrong:
            raise BadInput(f"--patch: {wrong}") from None
        return changed

    async def work(client: Client) -> None:
        async def one(name: str) -> None:
            done = await change_pod(client, namespace, name, change)
            say(f"pod/{name} patched{' (no change)' if done is Change.UNCHANGED else ''}")

        await do_all([one(name) for name in names], at_once=len(names))

    session.run(work)


def _read_patch(text: str, file: str) -> Any:
    """Return the patch's data. Raises BadInput for what is neither JSON nor YAML."""
    try:
        whole = Path(file).read_text() if file else text
        found = [document for _, document in read_documents(whole, source=file or "--patch")]
    except OSError as error:
        raise BadInput(f"--patch-file: {file}: {error.strerror}") from None
    except ManifestError as wrong:
        raise BadInput(str(wrong)) from None
    if len(found) != 1:
        raise BadInput("--patch: must be one document")
    return found[0]
