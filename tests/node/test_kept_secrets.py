"""Copies of a cluster's Secrets survive a reboot if they are configured, and are unreadable without their key."""

from __future__ import annotations

import logging
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from syncpod.cli.machine.state_directory import OURS
from syncpod.node.kept_secrets import KeepingStore, remove_kept_secrets, restore_kept_secrets
from syncpod.objects import ObjectRef, ObjectStore, ObjectUnknown, values
from syncpod.objects.tokens import kept_token
from tests.objects.objects import config_map, secret

KEYS = ObjectRef("Secret", "default", "keys", "cluster")
NONE = ObjectRef("Secret", "default", "none", "cluster")
TOKEN = ObjectRef("Secret", "default", "u-1", "token")


@pytest.fixture
def store(tmp_path: Path) -> KeepingStore:
    """A store with a Secret, a token, one Secret that does not exist, and a ConfigMap."""
    made = KeepingStore(tmp_path / "state", tmp_path / "memory")
    made.keep(secret("keys", "default", data={"k": "d29yZA=="}))
    made.keep(kept_token(TOKEN, "the-token", datetime.now(UTC), None), "token")
    made.note_absent(NONE)
    made.keep(config_map("settings", "default", data={"k": "v"}))
    return made


def rebooted(tmp_path: Path) -> ObjectStore:
    """The store after a reboot, without the data in memory."""
    shutil.rmtree(tmp_path / "memory")
    found = ObjectStore(tmp_path / "state", tmp_path / "memory")
    with pytest.raises(ObjectUnknown):
        found.get(KEYS)
    return found


def copies(tmp_path: Path) -> set[str]:
    root = tmp_path / "state/kept-secrets"
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_secrets_tokens_and_what_does_not_exist_are_known_again_after_a_reboot(
    store: KeepingStore, tmp_path: Path
) -> None:
    before = store.get(KEYS), store.get(TOKEN)
    assert copies(tmp_path) == {"key", "cluster/default/keys", "cluster/default/none", "token/default/u-1"}
    found = rebooted(tmp_path)
    restore_kept_secrets(tmp_path / "state", found)
    assert (found.get(KEYS), found.get(TOKEN), found.get(NONE)) == (*before, None)


def test_a_copy_tells_nothing_and_all_is_private(store: KeepingStore, tmp_path: Path) -> None:
    for path in (tmp_path / "state/kept-secrets").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    for path in (tmp_path / "state").rglob("*"):
        text = path.read_bytes() if path.is_file() else b""
        assert not any(word in text for word in (b"word", b"d29yZA", b"the-token", b"dGhlLXRva2Vu")), path


def test_the_newest_value_is_restored_and_a_forgotten_one_is_not(store: KeepingStore, tmp_path: Path) -> None:
    store.keep(secret("keys", "default", data={"k": "bmV3"}))
    store.forget(TOKEN)
    found = rebooted(tmp_path)
    restore_kept_secrets(tmp_path / "state", found)
    held = found.get(KEYS)
    assert held is not None and values(held) == {"k": b"new"}
    with pytest.raises(ObjectUnknown):
        found.get(TOKEN)


def test_what_memory_has_is_newer_than_a_copy(store: KeepingStore, tmp_path: Path) -> None:
    ObjectStore(tmp_path / "state", tmp_path / "memory").keep(secret("keys", "default", data={"k": "bmV3"}))
    restore_kept_secrets(tmp_path / "state", store)
    held = store.get(KEYS)
    assert held is not None and values(held) == {"k": b"new"}


@pytest.mark.parametrize("what", ["damaged", "another's", "empty", "another key"])
def test_a_copy_that_cannot_be_read_is_removed_and_the_others_serve(
    store: KeepingStore, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "state/kept-secrets"
    keys = root / "cluster/default/keys"
    match what:
        case "damaged":
            keys.write_bytes(keys.read_bytes()[:-1] + b"x")
        case "another's":
            (root / "cluster/default/other").write_bytes(keys.read_bytes())
            keys.unlink()
        case "empty":
            keys.write_bytes(b"")
        case "another key":
            (root / "key").write_bytes(os.urandom(32))
    found = rebooted(tmp_path)
    with caplog.at_level(logging.WARNING):
        restore_kept_secrets(tmp_path / "state", found)
    with pytest.raises(ObjectUnknown):
        found.get(KEYS)
    assert (found.version(TOKEN) is None) == (what == "another key")
    assert "cannot be read" in caplog.text and "word" not in caplog.text
    assert not {"cluster/default/keys", "cluster/default/other"} & copies(tmp_path)


def test_a_secret_that_was_there_before_copies_were_asked_for_gets_one(tmp_path: Path) -> None:
    found = secret("keys", "default", data={"k": "d29yZA=="})
    ObjectStore(tmp_path / "state", tmp_path / "memory").keep(found)
    assert not KeepingStore(tmp_path / "state", tmp_path / "memory").keep(found)
    assert copies(tmp_path) == {"key", "cluster/default/keys"}
    remove_kept_secrets(tmp_path / "state")
    store = ObjectStore(tmp_path / "state", tmp_path / "memory")
    store.keep(kept_token(TOKEN, "the-token", datetime.now(UTC), None), "token")
    restore_kept_secrets(tmp_path / "state", store)  # as a worker that starts
    assert copies(tmp_path) == {"key", "cluster/default/keys", "token/default/u-1"}


def test_all_copies_go_when_they_are_not_asked_for_any_more(store: KeepingStore, tmp_path: Path) -> None:
    remove_kept_secrets(tmp_path / "state")
    remove_kept_secrets(tmp_path / "state")
    assert copies(tmp_path) == set()
    assert store.get(KEYS) is not None


def test_many_are_copied_at_the_same_time(tmp_path: Path) -> None:
    store = KeepingStore(tmp_path / "state", tmp_path / "memory")
    numbers = range(100)

    def keep(number: int) -> None:
        token = kept_token(ObjectRef("Secret", "default", f"u-{number}", "token"), f"{number}", datetime.now(UTC), None)
        store.keep(token, "token")

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(keep, numbers))
    shutil.rmtree(tmp_path / "memory")
    found = ObjectStore(tmp_path / "state", tmp_path / "memory")
    restore_kept_secrets(tmp_path / "state", found)
    for number in numbers:
        held = found.get(ObjectRef("Secret", "default", f"u-{number}", "token"))
        assert held is not None and values(held)["token"] == f"{number}".encode()


def test_a_purge_knows_the_copies_as_syncpods(store: KeepingStore, tmp_path: Path) -> None:
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"objects", "kept-secrets"}
    assert {"objects", "kept-secrets"} <= OURS
