"""A fleet's sealing keys on disk: the current key, and a change by another process of the fleet."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from syncpod.gate.authority import Fleet, now
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.gate.sealing_key_files import SealingKeyFiles
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.sealing import receiver_ids
from syncpod.settings.values import SettingsInvalid


@pytest.fixture
def files(fleet: Fleet) -> SealingKeyFiles:
    return SealingKeyFiles(fleet)


def test_the_first_key_is_made_once_and_is_only_its_users(files: SealingKeyFiles, fleet: Fleet) -> None:
    (first,) = files.read()
    assert list(SealingKeyFiles(fleet).read()) == [first]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files.directory.iterdir()} == {0o600}
    (files.directory / f"{first}.key").chmod(0o644)
    with pytest.raises(SettingsInvalid, match="chmod 600"):
        files.read()


def test_a_key_is_used_only_when_that_is_said(files: SealingKeyFiles) -> None:
    (first,) = files.read()
    second = files.create()
    assert list(files.read()) == [first, second]
    for _ in range(2):
        files.use(second)
        assert list(files.read()) == [second, first]
    assert files.made_at(second) >= files.made_at(first)
    files.remove(first)
    assert list(files.read()) == [second]


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b"nothing"), lambda path: path.rename(path.with_stem("0" * 16))]
)
def test_a_file_that_is_no_key_of_its_name_is_named(files: SealingKeyFiles, damage: Callable[[Path], object]) -> None:
    (first,) = files.read()
    damage(files.directory / f"{first}.key")
    with pytest.raises(SettingsInvalid, match="restore it"):
        files.read()


def test_a_process_that_died_before_it_had_named_its_first_key_leaves_that_one_in_use(files: SealingKeyFiles) -> None:
    (first,) = files.read()
    (files.directory / "current").unlink()
    assert list(files.read()) == [first]
    second = files.create()
    assert list(files.read()) == [first, second], "the newest one is not in use yet"


def test_a_running_process_uses_another_key_within_a_second_and_opens_with_it_at_once(
    fleet: Fleet, files: SealingKeyFiles
) -> None:
    keys = FleetSealingKeys(fleet, now)
    first = keys.current
    second = files.create()
    files.use(second)
    assert len(keys.opening([first])) == 1, "it has not looked yet"
    assert len(keys.opening([second])) == 2 and keys.current == second


def test_keys_that_can_no_longer_be_read_go_on(fleet: Fleet, files: SealingKeyFiles) -> None:
    keys = FleetSealingKeys(fleet, now)
    files.directory.rename(files.directory.with_name("away"))
    assert len(keys.opening(["0" * 16])) == 1


def test_objects_are_sealed_anew_and_then_the_earlier_key_may_go(fleet: Fleet, files: SealingKeyFiles) -> None:
    sealing = ObjectSealing(FleetSealingKeys(fleet, now))
    metadata, kept = sealing.keep("Secret/default/keys", b"content")
    assert sealing.keep_anew("Secret/default/keys", metadata, kept) is None, "it is sealed for the key in use"
    second = files.create()
    files.use(second)
    again = ObjectSealing(FleetSealingKeys(fleet, now))
    anew = again.keep_anew("Secret/default/keys", metadata, kept)
    assert anew is not None
    version, metadata, kept = anew
    assert receiver_ids({name: text.encode() for name, text in metadata.items()}) == [second] == [again.current]
    assert version == again.version(b"content") != sealing.version(b"content")
    files.remove(next(named for named in files.read() if named != second))
    assert ObjectSealing(FleetSealingKeys(fleet, now)).keep_anew("Secret/default/keys", metadata, kept) is None


def test_what_nodes_are_told_has_ever_higher_numbers(files: SealingKeyFiles) -> None:
    files.read()
    numbers = [files.number() for _ in range(50)]
    assert numbers == sorted(set(numbers))


def test_a_certificate_that_is_issued_in_the_same_tick_as_another_one_is_seen(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates, keys = fleet.directory / "certificates", FleetSealingKeys(fleet, now)
    fleet.issue("n1", timedelta(hours=1), now())
    tick = certificates.stat().st_mtime_ns
    monkeypatch.setattr("syncpod.gate.sealing_keys.time.time_ns", lambda: tick)
    assert len(keys.receiving("n1")) == 1
    fleet.issue("n1", timedelta(hours=1), now())
    os.utime(certificates, ns=(tick, tick))
    assert len(keys.receiving("n1")) == 2
