"""Registries of sandboxes and containers, which find them by id, prefix of an id, unique name, or labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

from syncpod.runtime.refusals import invalid, not_found, precondition

INDEXED_LABELS: Final = ("io.kubernetes.pod.uid", "io.kubernetes.pod.name")
"""Labels with an index. Clients often list the sandboxes and containers of one pod by its UID: with 500 pods and no
index, comparing labels took a fifth of this process's time when a pod starts, and a third when it ends. At each start,
clients also list by the pod's name once, to find earlier pods of that name."""


class Identified(Protocol):
    """A sandbox or a container."""

    @property
    def id(self) -> str:
        """64 hexadecimal digits."""

    @property
    def name(self) -> str:
        """Its unique name, made from its metadata."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, which never change."""


_T = TypeVar("_T", bound=Identified)


class Registry(Generic[_T]):
    """All sandboxes, or all containers.

    Also all reserved names, including those of objects that are still being made.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._by_id: dict[str, _T] = {}
        self._by_label: dict[tuple[str, str], dict[str, _T]] = {}
        """The sandboxes or containers by id, for each value of each of INDEXED_LABELS."""
        self._holders: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[_T]:
        return iter(tuple(self._by_id.values()))

    def reserve(self, name: str, id: str) -> None:
        """Reserve a name for an id. Raises Refusal in containerd's words if it is taken."""
        holder = self._holders.setdefault(name, id)
        if holder != id:
            raise precondition(
                f'failed to reserve {self._kind} name "{name}": name "{name}" is reserved for "{holder}"'
            )

    def release(self, name: str) -> None:
        """Release a name."""
        self._holders.pop(name, None)

    def add(self, thing: _T) -> None:
        """Add a sandbox or container, whose name is reserved; from now on it is found and listed."""
        self._holders[thing.name] = thing.id
        self._by_id[thing.id] = thing
        for key in _indexed(thing.labels):
            self._by_label.setdefault(key, {})[thing.id] = thing

    def discard(self, thing: _T) -> None:
        """Remove a sandbox or container, and release its name."""
        self._by_id.pop(thing.id, None)
        self.release(thing.name)
        for key in _indexed(thing.labels):
            if alike := self._by_label.get(key):
                alike.pop(thing.id, None)
                if not alike:
                    del self._by_label[key]

    def matching(self, id: str) -> tuple[_T, ...]:
        """Return the sandboxes or containers with this id or prefix of an id."""
        exact = self._by_id.get(id)
        if exact is not None:
            return (exact,)
        if not id or len(id) >= 64:
            return ()
        return tuple(thing for key, thing in self._by_id.items() if key.startswith(id))

    def select(self, id: str, labels: Mapping[str, str]) -> Iterator[_T]:
        """Yield the matches of a filter: its id, or unique prefix of an id (empty = any), and all its labels."""
        candidates: tuple[_T, ...]
        if id:
            found = self.matching(id)
            candidates = found if len(found) == 1 else ()
        elif key := next(_indexed(labels), None):
            candidates = tuple(self._by_label.get(key, {}).values())
        else:
            candidates = tuple(self._by_id.values())
        return (thing for thing in candidates if has_labels(thing.labels, labels))

    def find(self, id: str, path: str) -> _T | None:
        """Return the sandbox or container with this id, or unique prefix of an id; None if there is none.

        `path` is the id's path in the request. Raises Refusal if the id is empty or an ambiguous prefix.
        """
        if not id:
            raise invalid(path, "required")
        found = self.matching(id)
        if len(found) > 1:
            raise invalid(path, f'{len(found)} {self._kind} ids begin with "{id}": give more of it')
        return found[0] if found else None

    def get(self, id: str, path: str) -> _T:
        """Return the result of `find`; raise Refusal if there is none."""
        found = self.find(id, path)
        if found is None:
            raise not_found(f'an error occurred when try to find {self._kind} "{id}": not found')
        return found


def _indexed(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the labels that have an index, with their values."""
    return ((label, labels[label]) for label in INDEXED_LABELS if label in labels)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return whether the labels include all of the selector's."""
    return all(labels.get(key) == value for key, value in selector.items())
