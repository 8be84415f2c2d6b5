"""The ConfigMaps and Secrets of this machine's node, as a command finds them: in its directories, never on a server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.cli.console import say, warn
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.node_process import serving
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import prepare, recorded_worker
from syncpod.settings.directories import make_memory_directory, require_own_memory_directory
from syncpod.settings.errors import SettingsInvalid
from syncpod.settings.node import NodeSettings
from syncpod.settings.variables import MEMORY_DIR

if TYPE_CHECKING:
    from syncpod.cli.input.manifests import Manifests
    from syncpod.objects import Change, ObjectRef, ObjectStore


def memory_directory_of(here: NodeSettings, *, is_named: bool) -> Path:
    """Return where the node's Secrets are: where its worker reads them, else where they are said to be by a person.

    Where nobody says so (`is_named`), it is where the last worker that `up` started read them, or the usual place.
    Raises BadInput where another place is named than the one that a worker reads.
    """
    worker, started = serving(here.state_dir), recorded_worker(here.state_dir)
    if worker is not None and worker.memory_dir:
        if is_named and Path(worker.memory_dir) != here.memory_dir:
            raise BadInput(
                f"the worker of {here.state_dir} (pid {worker.pid}) keeps Secrets in {worker.memory_dir}, "
                f"not in {here.memory_dir}: name no other memory directory while it runs"
            )
        return Path(worker.memory_dir)
    if started is not None and started.memory_dir and not is_named:
        return Path(started.memory_dir)
    return here.memory_dir


def store_to_read(here: NodeSettings | None = None) -> ObjectStore:
    """Return the node's objects, for looking at them; nothing is made. Raises BadInput."""
    from syncpod.objects import ObjectStore

    here = here or settings()
    memory = memory_directory_of(here, is_named=bool(os.environ.get(MEMORY_DIR)))
    try:
        require_own_memory_directory(memory)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    return ObjectStore(here.state_dir, memory)


def store_to_write(here: NodeSettings | None = None) -> ObjectStore:
    """Return the node's objects, with their directories made. Raises BadInput."""
    from syncpod.objects import ObjectStore

    here = here or settings()
    memory = memory_directory_of(here, is_named=bool(os.environ.get(MEMORY_DIR)))
    prepare(here.state_dir)
    try:
        make_memory_directory(memory)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    return ObjectStore(here.state_dir, memory)


@contextmanager
def saying_what_failed() -> Iterator[None]:
    """Make one sentence of what a store refuses, or a file system."""
    from syncpod.objects import ObjectRefused, ObjectUnreadable

    try:
        yield
    except ObjectRefused as refused:
        raise BadInput(str(refused)) from None
    except ObjectUnreadable as wrong:
        raise Failure(str(wrong)) from None
    except OSError as error:
        raise Failure(f"the node's configmaps and secrets: {error.filename}: {error.strerror}") from None


def require_possible(manifests: Manifests, here: NodeSettings, *, asked: str = "") -> None:
    """Raise BadInput, before anything is done, where ConfigMaps and Secrets cannot be applied here.

    That is where they, or pods that refer to them, belong to another node, or where one may not become what is wanted.
    `asked` is the node that pods are to go to unless they name one; "" = this machine's.
    """
    if manifests.objects:
        _require_this_node(manifests, here, asked)
        refused = [answer.error for answer in what_would_change(manifests, here) if answer.error]
        if refused:
            raise BadInput("\n".join(refused))


@dataclass(frozen=True)
class Expected:
    """What applying one object would do."""

    ref: ObjectRef
    change: Change | None
    """None = it would be refused."""
    error: str = ""


def what_would_change(manifests: Manifests, here: NodeSettings) -> list[Expected]:
    """Return what applying each object would do now; nothing is done. Raises Failure."""
    from syncpod.objects import ObjectRefused, ref_of

    found = []
    with saying_what_failed():
        store = store_to_read(here)
        for one in manifests.objects:
            try:
                found.append(Expected(ref_of(one.object), store.would_put(one.object)))
            except ObjectRefused as refused:
                found.append(Expected(ref_of(one.object), None, str(refused)))
    return found


def keep(manifests: Manifests, here: NodeSettings) -> None:
    """Write the ConfigMaps and Secrets that are to be applied, and say what came of each as kubectl does.

    Raises Failure where the file system does not take one.
    """
    from syncpod.objects import ref_of

    if not manifests.objects:
        return
    with saying_what_failed():
        store = store_to_write(here)
        for wanted, warnings in manifests.objects:
            ref = ref_of(wanted)
            say(f"{ref.kind.lower()}/{ref.name} {store.put(wanted)}")
            for warning in warnings:
                warn(f"{ref.kind.lower()} {ref.name}: {warning}")


def _require_this_node(manifests: Manifests, here: NodeSettings, asked: str) -> None:
    from syncpod.objects import ref_of, references

    own = _node_of(here)
    why = f"configmaps and secrets are kept on their node itself, and {here.state_dir} is node {own}'s"
    if asked and asked != own:
        raise BadInput(f"--node {asked}: {why}: apply them there")
    given = {ref_of(one.object) for one in manifests.objects}
    for pod in (admission.pod for admission in manifests.pods):
        needed = [one for one in references(pod) if one.ref in given]
        if needed and pod.spec.node_name not in ("", own):
            raise BadInput(
                f"pod {pod.metadata.name}: spec.nodeName: is {pod.spec.node_name}, but {needed[0].path} names "
                f"{needed[0].ref}; {why}: apply both there"
            )


def _node_of(here: NodeSettings) -> str:
    """Return the node that a state directory belongs to: the one that is or was served from it, else this machine's."""
    worker = serving(here.state_dir)
    if worker is not None:
        return worker.node
    try:
        return str(json.loads((here.state_dir / "node.json").read_text())["node"])
    except (OSError, ValueError, KeyError, TypeError):
        return here.node
