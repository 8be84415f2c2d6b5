"""The keys of a state directory: made once, readable only by their owner, with numbers that only grow."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from syncpod.messages.signature import key_id
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import (
    add_signing_key,
    create_signing_key,
    make_signing_keys,
    read_signing_keys,
    use_signing_key,
)


def test_a_key_is_made_once_and_a_newer_one_signs(tmp_path: Path) -> None:
    assert read_signing_keys(tmp_path) is None
    first = make_signing_keys(tmp_path)
    assert len(first.current) == 32
    assert make_signing_keys(tmp_path).current == first.current
    before, known = first.current, dict(first.by_id)
    second = add_signing_key(tmp_path)
    assert second.current != before
    assert known.items() <= second.by_id.items(), "what the first has signed is verified further on"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "keys", *(tmp_path / "keys").iterdir()))


def test_a_process_that_runs_finds_a_newer_key_and_signs_with_it(tmp_path: Path) -> None:
    running = make_signing_keys(tmp_path)
    first, verifies = running.current, running.by_id
    (earlier,) = verifies
    newer = add_signing_key(tmp_path).current
    assert verifies[key_id(newer)] == newer, "looked for by its id, before anything else has been asked for"
    assert (running.current, running.by_id[earlier]) == (newer, first)
    assert verifies.get("0" * 16) is None
    assert verifies.get("../number") is None


def test_a_key_that_was_copied_here_later_does_not_sign(tmp_path: Path) -> None:
    ours = make_signing_keys(tmp_path / "ours")
    other = make_signing_keys(tmp_path / "other").current
    (tmp_path / "ours" / "keys" / f"{key_id(other)}.key").touch(mode=0o600)
    (tmp_path / "ours" / "keys" / f"{key_id(other)}.key").write_text(other.hex())
    assert ours.by_id[key_id(other)] == other
    assert ours.current != other


def test_what_is_known_goes_on_if_the_directory_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncpod.signing.keys.LOOK_SECONDS", 0.0)
    running = make_signing_keys(tmp_path)
    known = running.current
    (tmp_path / "keys" / f"{'0' * 16}.key").write_text("no key")
    assert running.current == known
    assert running.by_id.get("0" * 16) is None
    assert "those that are known go on" in caplog.text


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


def test_a_key_is_made_first_and_signs_only_when_it_is_told_to(tmp_path: Path) -> None:
    keys = make_signing_keys(tmp_path)
    first = key_id(keys.current)
    (tmp_path / "keys" / "current").unlink()  # as before there was such a file
    second = create_signing_key(tmp_path)
    found = read_signing_keys(tmp_path)
    assert found is not None and {*found.by_id} == {first, second} and key_id(found.current) == first
    assert keys.by_id[second], "a process that runs can read what another one encrypts with it"
    os.utime(tmp_path / "keys" / f"{second}.key", (0, 0))
    for _ in range(2):
        use_signing_key(tmp_path, second)
        found = read_signing_keys(tmp_path)
        assert found is not None and key_id(found.current) == second
    assert found.made_at(second) >= found.made_at(first), "what has ended before it signed needs the first"
    with pytest.raises(SettingsInvalid, match="key 0123456789abcdef cannot be used: No such file"):
        use_signing_key(tmp_path, "0123456789abcdef")
