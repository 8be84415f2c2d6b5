"""Creates a ConfigMap or a Secret on this machine's node, or prints one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.console import say
from syncpod.cli.failure import AlreadyExists, BadInput
from syncpod.cli.machine.object_store import saying_what_failed, store_to_write
from syncpod.cli.view.documents import print_documents
from syncpod.objects import admit_object, ref_of
from syncpod.pod import PodInvalid, pod_to_wire

if TYPE_CHECKING:
    from syncpod.pod import ConfigMap, Secret


def create_object(wanted: ConfigMap | Secret, immutable: bool, dry_run: str, output: str) -> None:
    """Create an object, or with ``dry_run`` ``client`` only print it.

    Raises BadInput, also for a wrong object, and Failure if it exists already.
    """
    if dry_run not in ("none", "client"):
        raise BadInput(f"--dry-run: must be none or client, not {dry_run}")
    if output not in ("", "json", "yaml", "name"):
        raise BadInput(f"--output: must be json, yaml, name, not {output}")
    if immutable:
        wanted = wanted.model_copy(update={"immutable": True})
    kind, name = wanted.kind.lower(), wanted.metadata.name
    try:
        wanted = admit_object(wanted).object
    except PodInvalid as wrong:
        raise BadInput("\n".join(f"{kind} {name}: {problem}" for problem in wrong.problems)) from None
    shown: ConfigMap | Secret | None = wanted
    if dry_run == "none":
        with saying_what_failed():
            store = store_to_write()
            if not store.add(wanted):
                raise AlreadyExists(f"{kind}s", name, wanted.metadata.namespace)
            shown = store.get(ref_of(wanted))
    if shown is not None:
        _print(shown, output, dry_run)


def _print(made: ConfigMap | Secret, output: str, dry_run: str) -> None:
    kind, name = made.kind.lower(), made.metadata.name
    if output in ("json", "yaml"):
        print_documents([pod_to_wire(made)], output, single=True)
    elif output == "name":
        say(f"{kind}/{name}")
    else:
        say(f"{kind}/{name} created" + (" (dry run)" if dry_run == "client" else ""))
