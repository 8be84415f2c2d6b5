"""Earlier values of changed or deleted Secrets are kept, since containers may have got them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from syncpod.objects import ObjectRefused, ObjectStore, values
from syncpod.objects import store as store_module
from tests.objects.objects import config_map, ref, secret, store_in


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return store_in(tmp_path)


def kept(store: ObjectStore) -> list[tuple[str, bytes]]:
    return sorted((former.ref.name, values(held)["k"]) for former, held in store.former())


def test_what_a_secret_was_is_kept_when_it_is_changed_or_deleted(store: ObjectStore) -> None:
    store.put(secret(stringData={"k": "first"}))
    assert kept(store) == []
    store.put(secret(stringData={"k": "second"}))
    assert kept(store) == [("a", b"first")]
    store.delete(ref("Secret"))
    assert kept(store) == [("a", b"first"), ("a", b"second")]
    store.put(secret(stringData={"k": "third"}))
    assert len(kept(store)) == 2, "a Secret that is new has nothing that it was"


def test_neither_config_maps_nor_a_change_without_new_values_leave_anything(store: ObjectStore) -> None:
    store.put(config_map(data={"k": "v"}))
    store.put(config_map(data={"k": "w"}))
    store.delete(ref())
    store.put(secret(stringData={"k": "v"}))
    store.put(secret(stringData={"k": "v"}, immutable=True))
    assert kept(store) == []


def test_it_is_kept_in_memory_and_private(store: ObjectStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store.put(secret(stringData={"k": "v"}))
        store.delete(ref("Secret"))
    finally:
        os.umask(before)
    [(former, _)] = store.former()
    assert former.file.is_relative_to(tmp_path / "memory")
    assert former.file.stat().st_mode & 0o777 == 0o600
    assert former.file.parent.stat().st_mode & 0o777 == 0o700


def test_a_node_knows_since_when_it_keeps_them(store: ObjectStore) -> None:
    assert store.known_since() is None
    before = time.time()
    store.begin_knowing()
    since = store.known_since()
    assert since is not None and before - 1 < since < time.time() + 1
    store.put(secret(stringData={"k": "v"}))
    store.begin_knowing()
    assert store.known_since() == since


def test_more_values_than_can_be_hidden_are_refused_by_name(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_VALUES", 10)
    monkeypatch.setattr(store_module, "_LEAST_BYTES", 1)
    store.put(secret("six", stringData={f"k{number}": "v" for number in range(6)}))
    with pytest.raises(ObjectRefused, match=r'"five" is refused: .* at most 10 .* it would have 11, and 0 earlier'):
        store.put(secret("five", stringData={f"k{number}": "v" for number in range(5)}))
    with pytest.raises(ObjectRefused):
        store.add(secret("five", stringData={f"k{number}": "v" for number in range(5)}))
    store.put(secret("six", stringData={f"k{number}": "w" for number in range(4)}))
    with pytest.raises(ObjectRefused, match="it would have 5, and 6 earlier ones"):
        store.put(secret("one", stringData={"k": "v"}))
    store.put(config_map("map", data={f"k{number}": "v" for number in range(50)}))
    assert store.delete(ref("Secret", "six")), "a deletion is never refused"
