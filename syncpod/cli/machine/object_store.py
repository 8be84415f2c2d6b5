"""Opens the store of ConfigMaps and Secrets of this machine's node, and finds objects in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import memory_directory_of, prepare
from syncpod.objects import ObjectRef, ObjectRefused, ObjectStore, ObjectUnreadable
from syncpod.settings.directories import make_memory_directory, require_own_memory_directory
from syncpod.settings.node import NodeSettings
from syncpod.settings.table import MEMORY_DIR
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    from syncpod.api.label_selector import Selector
    from syncpod.objects import Kind
    from syncpod.pod import ConfigMap, Secret


def store_to_read(here: NodeSettings | None = None) -> ObjectStore:
    """Return the node's store for reading; no directory is created. Raises BadInput."""
    here = here or settings()
    memory = memory_directory_of(here, is_named=bool(os.environ.get(MEMORY_DIR.variable)))
    try:
        require_own_memory_directory(memory)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    return ObjectStore(here.state_dir, memory)


def store_to_write(here: NodeSettings | None = None) -> ObjectStore:
    """Return the node's store for writing; its directories are created. Raises BadInput."""
    here = here or settings()
    memory = memory_directory_of(here, is_named=bool(os.environ.get(MEMORY_DIR.variable)))
    prepare(here.state_dir)
    try:
        make_memory_directory(memory)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    return ObjectStore(here.state_dir, memory)


@contextmanager
def saying_what_failed() -> Iterator[None]:
    """Turn errors of the store or the file system into a Failure or BadInput."""
    try:
        yield
    except ObjectRefused as refused:
        raise BadInput(str(refused)) from None
    except ObjectUnreadable as wrong:
        raise Failure(str(wrong)) from None
    except OSError as error:
        raise Failure(f"the node's configmaps and secrets: {error.filename}: {error.strerror}") from None


def not_there(kind: str, name: str, namespace: str) -> str:
    """Return the message about an object that does not exist."""
    return f'{kind.lower()}s "{name}" not found in namespace {namespace}'


def find(
    kind: Kind, names: Sequence[str], namespace: str | None, conditions: Selector
) -> tuple[list[ConfigMap | Secret], list[str]]:
    """Return the named objects, or all selected ones, and a message for each missing one. Raises Failure."""
    with saying_what_failed():
        store = store_to_read()
        if not names:
            return [one for one in store.list(kind, namespace) if conditions.matches(one.metadata.labels)], []
        looked = {name: store.get(ObjectRef(kind, namespace or "default", name)) for name in names}
    found = [one for one in looked.values() if one is not None]
    return found, [not_there(kind, name, namespace or "default") for name, one in looked.items() if one is None]
