"""What this machine's journal has of a pod that the Temporal server has forgotten."""

from __future__ import annotations

from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.worker_process import serving
from syncpod.journal.reading import NoJournal, PodRunRecords, lives_of


def last_life(server: tuple[str, str], namespace: str, name: str) -> PodRunRecords | None:
    """Return the journal's records of the last life of a pod; None if it has none. Blocks.

    If the node belongs to another server than this one (its address and namespace), its journal has nothing of the pod.
    """
    worker = serving(settings().state_dir)
    if worker is not None and (worker.address, worker.namespace) != server:
        return None
    try:
        lives = lives_of(settings().state_dir, namespace, name)
    except NoJournal:
        return None
    return lives[-1] if lives else None


def missing(server: tuple[str, str], namespace: str, name: str) -> str:
    """Return the sentence that there is no pod of this name, with where to read of one that is gone. Blocks."""
    said = no_such_pod(name, namespace)
    if last_life(server, namespace, name) is None:
        return said
    return f"{said}; `syncpod explain -n {namespace} {name}` says what became of it"
