"""The invitation file of a node, with one sentence for each error in it."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.agent.fleet.kept_intent import keep_intent
from syncpod.cli.main import run
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet import Intent
from syncpod.settings.invitation import Invitation, invitation_text, parse_invitation, read_invitation, write_invitation
from syncpod.settings.membership import forget_membership, read_listening, read_membership
from syncpod.settings.values import SettingsInvalid

INVITATION = Invitation(
    fleet="0123456789abcdef",
    node="n1",
    address="fleet.example.com:7300",
    server_name="gate.0123456789abcdef.syncpod",
    namespace="default",
    authorities="-----BEGIN CERTIFICATE-----\n",
    certificate="-----BEGIN CERTIFICATE-----\n",
    key="-----BEGIN PRIVATE KEY-----\n",
    fleet_key="-----BEGIN PUBLIC KEY-----\n",
)


def invited(
    directory: Path,
    fleet: str = INVITATION.fleet,
    node: str = INVITATION.node,
    life: timedelta = timedelta(hours=1),
    at: datetime | None = None,
) -> Invitation:
    """A valid invitation from a fleet with this id."""
    (home := directory / fleet).mkdir(mode=0o700, exist_ok=True)
    (home / "id").write_text(fleet)
    opened = open_fleet(home, now())
    pair = opened.issue(node, life, at or now())
    return replace(
        INVITATION,
        fleet=fleet,
        node=node,
        server_name=opened.server_name,
        authorities=opened.authorities_pem(),
        certificate=pair.certificate,
        key=pair.key,
        fleet_key=FleetSealingKeys(opened, now).public_pem(),
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_invitation(tmp_path / "i", INVITATION)
    assert read_invitation(tmp_path / "i") == INVITATION
    assert "PRIVATE" not in repr(INVITATION)
    (tmp_path / "i").chmod(0o644)
    with pytest.raises(SettingsInvalid, match="mode 0600"):
        read_invitation(tmp_path / "i")
    with pytest.raises(SettingsInvalid, match="No such file"):
        read_invitation(tmp_path / "none")
    with pytest.raises(SettingsInvalid, match="is not a file"):
        read_invitation(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"extra": 1}, "'extra': is not a field of an invitation"),
        ({"version": 2}, "version: must be 1"),
        ({"node": "N 1"}, "node: must be the name of a node"),
        ({"node": 1}, "node: must be a non-empty text"),
        ({"address": "host"}, "address: must be host:port"),
        ({"address": "host:70000"}, "address: must be host:port"),
        ({"key": "-----BEGIN CERTIFICATE-----"}, "key: must be PEM"),
        ({"namespace": " "}, "namespace: must be a non-empty text"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], sentence: str) -> None:
    said = {"version": 1, **asdict(INVITATION), **change}
    with pytest.raises(SettingsInvalid) as caught:
        parse_invitation(json.dumps(said).encode())
    assert str(caught.value).startswith(sentence)


@given(st.binary(max_size=200))
def test_nothing_else_is_an_invitation(said: bytes) -> None:
    with pytest.raises(SettingsInvalid):
        parse_invitation(said)


@given(st.integers(0, len(invitation_text(INVITATION)) - 3))
def test_a_part_of_one_is_none(length: int) -> None:
    with pytest.raises(SettingsInvalid):
        parse_invitation(invitation_text(INVITATION)[:length].encode())


@pytest.mark.parametrize("said", [b"NAME  READY\n", b"kind: Pod\n", b'{"kind": "Pod"}', b"\x7fELF"])
def test_of_a_file_that_is_no_invitation_nobody_is_told_to_change_its_mode(tmp_path: Path, said: bytes) -> None:
    (path := tmp_path / "i").write_bytes(said)
    path.chmod(0o644)
    with pytest.raises(SettingsInvalid, match=r"it must be the file that `syncpod fleet invite` has written$"):
        read_invitation(path)


def test_what_is_too_long_is_none() -> None:
    with pytest.raises(SettingsInvalid, match="bytes"):
        parse_invitation(b"[" * 2**20)


def test_an_invitation_comes_by_standard_input_to_a_container_whose_files_are_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def join(said: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(said.encode())))
        return run(["join", "-", "--state-dir", str(state_dir)])

    state_dir, invitation = tmp_path / "node", invited(tmp_path)
    monkeypatch.setenv("SYNCPOD_NODE", "n1")
    assert join("{}") == 2
    assert capsys.readouterr().err.startswith("syncpod: invitation standard input: has no field of")
    assert join(invitation_text(replace(invitation, node="n2"))) == 2
    assert "standard input: node: is n2, but this node is n1" in capsys.readouterr().err
    assert read_membership(state_dir) is None
    assert join(invitation_text(invitation)) == 0
    assert read_membership(state_dir) == invitation


def changes(invitation: Invitation, other: Invitation) -> Iterator[tuple[str, dict[str, str]]]:
    """Errors in an invitation, each with the field that is named; `other` is another node's invitation."""
    for field in ("certificate", "authorities", "key", "fleet_key"):
        pem: str = getattr(invitation, field)
        for place in (len(pem) // 3, len(pem) // 2, 2 * len(pem) // 3, len(pem) - 4):
            yield field, {field: pem[:place] + ("A" if pem[place] != "A" else "B") + pem[place + 1 :]}
        yield field, {field: pem[: len(pem) // 2]}
    yield "key", {"key": other.key}
    yield "node", {"certificate": other.certificate}
    yield "node", {"certificate": other.certificate, "key": other.key}
    yield "authorities", {"authorities": f"{invitation.authorities}x"}
    yield "server_name", {"server_name": "gate.example.com"}


def test_a_damaged_invitation_is_refused_by_its_field_and_the_one_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node must not lose its fleet to a file that was cut, mixed up or changed on its way."""
    monkeypatch.setenv("SYNCPOD_NODE", "n1")
    invitation, other = invited(tmp_path), invited(tmp_path, node="n2")
    state_dir, file = tmp_path / "node", tmp_path / "invitation"
    join = ["join", str(file), "--state-dir", str(state_dir)]
    write_invitation(file, invitation)
    assert run(join) == 0
    capsys.readouterr()
    for field, change in changes(invitation, other):
        write_invitation(file, replace(invitation, **change))
        assert run(join) == 2, change
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1, said
        assert f"invitation {file}: {field}: " in said.err
        assert read_membership(state_dir) == invitation
    write_invitation(file, invited(tmp_path, life=timedelta(seconds=1), at=now() - timedelta(days=1)))
    assert run(join) == 2
    assert f"invitation {file}: certificate: has expired at " in capsys.readouterr().err
    assert read_membership(state_dir) == invitation
    write_invitation(file, invited(tmp_path))
    assert run(join) == 0


def test_an_invitation_replaces_one_that_was_damaged_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The way on that the node's log names is a new invitation: `join` refused it because of the damaged one."""
    monkeypatch.setenv("SYNCPOD_NODE", "n1")
    invitation, state_dir, file = invited(tmp_path), tmp_path / "node", tmp_path / "invitation"
    join = ["join", str(file), "--state-dir", str(state_dir)]
    write_invitation(file, invitation)
    assert run(join) == 0
    for name, damage in (
        ("fleet.json", b"{\xb3"),
        ("fleet-told-key.json", b"{\xb3"),
        ("fleet-listen", b"127.0.0\xae1:1"),
    ):
        (state_dir / name).write_bytes(damage)
        (state_dir / name).chmod(0o600)
        capsys.readouterr()
        assert run(join) == 0, name
        assert read_membership(state_dir) == invitation
    assert "127.0.0" in read_listening(state_dir)
    (state_dir / "fleet.json").write_bytes(b"{\xb3")
    capsys.readouterr()
    assert run(["join", "--listen", "none", "--state-dir", str(state_dir)]) == 2, "nothing replaces it"
    assert capsys.readouterr().err.count("\n") == 1


def test_joining_another_fleet_names_the_pods_that_end_and_joining_the_same_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def join(fleet: str, *pods: str) -> str:
        documents = tuple({"metadata": {"name": each, "namespace": "default"}} for each in ("gone", *pods))
        keep_intent(tmp_path, Intent(fleet="fedcba9876543210", node="n1", generation=1, pods=documents))
        shutil.rmtree(tmp_path / "pods", ignore_errors=True)
        for document in documents[1:]:
            (record := tmp_path / "pods" / document["metadata"]["name"] / "pod.json").parent.mkdir(parents=True)
            record.write_text(json.dumps({"pod": document}))
        write_invitation(invitation, invited(tmp_path, fleet=fleet))
        assert run(["join", str(invitation), "--state-dir", str(tmp_path)]) == 0
        forget_membership(tmp_path)
        return next((each for each in capsys.readouterr().err.splitlines() if each.startswith("Note: ")), "")

    invitation = tmp_path / "invitation"
    monkeypatch.setenv("SYNCPOD_NODE", "n1")
    of_it = "of fleet fedcba9876543210 on this node"
    own = "as soon as fleet 0123456789abcdef has sent its own list"
    assert join(INVITATION.fleet, "web") == f"Note: 1 pod {of_it} ends {own}: default/web"
    many = join(INVITATION.fleet, *(f"web-{each:02}" for each in range(12)))
    assert many.startswith(f"Note: 12 pods {of_it} end {own}: default/web-00, default/web-01, ")
    assert many.endswith(", default/web-09 and 2 more")
    assert join(INVITATION.fleet) == ""
    assert join("fedcba9876543210", "web") == ""
