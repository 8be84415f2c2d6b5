"""The key of an earlier invitation is kept while something on the node's disk is sealed with it."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

from syncpod.cli.machine.state_directory import OURS
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import (
    EARLIER_FILE_NAME,
    ReceivedKey,
    forget_membership,
    keep_listening,
    keep_membership,
    keep_received_key,
    read_earlier_keys,
)

FIRST = Invitation(
    fleet="f" * 16,
    node="n1",
    address="127.0.0.1:1",
    server_name="gate.f.syncpod",
    namespace="default",
    authorities="-----BEGIN CERTIFICATE-----\n",
    certificate="-----BEGIN CERTIFICATE-----\n",
    key="-----BEGIN PRIVATE KEY-----\n",
    fleet_key="-----BEGIN PUBLIC KEY-----\n",
)


def key(number: int) -> str:
    return FIRST.key.replace("\n", f"\n{number}\n", 1)


def test_the_keys_of_earlier_invitations_are_kept_the_newest_first_and_only_a_few(tmp_path: Path) -> None:
    keep_membership(tmp_path, replace(FIRST, key=key(0)))
    assert read_earlier_keys(tmp_path) == ()
    keep_membership(tmp_path, replace(FIRST, key=key(0)))
    assert read_earlier_keys(tmp_path) == (), "it is the same one"
    for number in range(1, 8):
        keep_membership(tmp_path, replace(FIRST, key=key(number)))
    assert read_earlier_keys(tmp_path) == (key(6), key(5), key(4), key(3))
    assert stat.S_IMODE((tmp_path / EARLIER_FILE_NAME).stat().st_mode) == 0o600
    keep_membership(tmp_path, replace(FIRST, key=key(5)))
    assert read_earlier_keys(tmp_path) == (key(7), key(6), key(4), key(3)), "5 is not an earlier one"


def test_another_fleet_gets_nothing_that_was_sealed_for_the_earlier_key(tmp_path: Path) -> None:
    for number in (1, 2):
        keep_membership(tmp_path, replace(FIRST, key=key(number)))
    keep_membership(tmp_path, replace(FIRST, fleet="0" * 16, key=key(3)))
    assert read_earlier_keys(tmp_path) == ()


def test_a_node_that_leaves_keeps_no_key(tmp_path: Path) -> None:
    for number in (1, 2):
        keep_membership(tmp_path, replace(FIRST, key=key(number)))
    forget_membership(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_broken_file_counts_as_none(tmp_path: Path) -> None:
    for text in ("", "{}", '[1, "a"]'):
        (tmp_path / EARLIER_FILE_NAME).write_text(text)
        assert read_earlier_keys(tmp_path) == (("a",) if "a" in text else ())


def test_down_knows_each_file_of_a_membership(tmp_path: Path) -> None:
    """Otherwise `syncpod down --purge` keeps the directory."""
    keep_membership(tmp_path, FIRST)
    keep_membership(tmp_path, later := replace(FIRST, key=key(1), fleet_key=f"{FIRST.fleet_key}1"))
    keep_received_key(tmp_path, later, ReceivedKey(number=1, key=later.fleet_key))
    keep_listening(tmp_path, "127.0.0.1:1")
    names = {each.name for each in tmp_path.iterdir()}
    assert len(names) == 5 and names <= OURS
