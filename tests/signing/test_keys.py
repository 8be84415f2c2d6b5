"""The keys of a state directory: made once, readable by their owner only, and numbers that only grow."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path

import pytest

from syncpod.settings.errors import SettingsInvalid
from syncpod.signing.keys import add_signing_key, make_signing_keys, read_signing_keys


def test_a_key_is_made_once_and_a_newer_one_signs(tmp_path: Path) -> None:
    assert read_signing_keys(tmp_path) is None
    first = make_signing_keys(tmp_path)
    assert len(first.current) == 32
    assert make_signing_keys(tmp_path).current == first.current
    second = add_signing_key(tmp_path)
    assert second.current != first.current
    assert first.by_id.items() <= second.by_id.items(), "what the first has signed is verified further on"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "keys", *(tmp_path / "keys").iterdir()))


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    make_signing_keys(tmp_path)
    (key,) = (tmp_path / "keys").glob("*.key")
    key.chmod(0o644)
    with pytest.raises(SettingsInvalid, match="mode 0600"):
        read_signing_keys(tmp_path)
    key.chmod(0o600)
    key.write_text("no key\n")
    with pytest.raises(SettingsInvalid, match="is no key"):
        read_signing_keys(tmp_path)


def test_numbers_grow_even_if_the_clock_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = make_signing_keys(tmp_path)
    numbers = [keys.number() for _ in range(20)]
    later = time.time_ns() + 10**15
    monkeypatch.setattr(time, "time_ns", lambda: later)
    numbers.append(make_signing_keys(tmp_path).number())
    monkeypatch.setattr(time, "time_ns", lambda: later - 10**15)
    numbers += [make_signing_keys(tmp_path).number(), keys.number()]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < 2**53


def test_whoever_holds_the_lock_stops_nobody(tmp_path: Path) -> None:
    keys = make_signing_keys(tmp_path)
    before = keys.number()
    with (tmp_path / "keys" / "number").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert keys.number() > before
