"""A node accepts a new fleet key only in a message under the key that it trusts, and never an earlier key again.

Holds: The fleet's sealing key can be changed at any time.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key

from syncpod.agent.fleet.received_key import fleet_key_id, private_key, received_key
from syncpod.gate.authority import Fleet, now, open_fleet
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet_objects import FLEET_KEY, SealedKey
from syncpod.messages.sealing import Fresh, seal
from syncpod.messages.signature import PayloadPlace
from syncpod.settings.invitation import Invitation
from syncpod.settings.membership import (
    RECEIVED_FILE_NAME,
    forget_membership,
    keep_membership,
    keep_received_key,
    read_earlier_fleet_keys,
    read_membership,
)
from syncpod.settings.values import SettingsInvalid


@dataclass
class Home:
    """A fleet, and a node's state directory."""

    fleet: Fleet
    state_dir: Path

    @property
    def keys(self) -> FleetSealingKeys:
        return FleetSealingKeys(self.fleet, now)

    def rotate(self) -> str:
        named = self.keys.files.create()
        self.keys.files.use(named)
        return named

    def told(self, node: str = "n1") -> SealedKey:
        metadata, data = ObjectSealing(self.keys).seal_key(node)
        return SealedKey(metadata=metadata, sealed=base64.b64encode(data).decode())

    def invitation(self, node: str = "n1") -> Invitation:
        pair = self.fleet.issue(node, timedelta(hours=1), now())
        authorities, key = self.fleet.authorities_pem(), self.keys.public_pem()
        where = ("127.0.0.1:1", self.fleet.server_name, "default")
        return Invitation(self.fleet.id, node, *where, authorities, pair.certificate, pair.key, key)

    @property
    def invited(self) -> Invitation:
        found = read_membership(self.state_dir)
        assert found is not None
        return found

    def take(self, told: SealedKey) -> None:
        keep_received_key(self.state_dir, self.invited, received_key(self.invited, told))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "node").mkdir()
    made = Home(open_fleet(tmp_path / "fleet", now()), tmp_path / "node")
    keep_membership(made.state_dir, made.invitation())
    return made


def test_a_node_trusts_the_key_that_its_fleet_has_told_it_and_no_other(home: Home) -> None:
    first = home.keys.current
    assert fleet_key_id(home.invited) == first
    second = home.rotate()
    for _ in range(2):  # the same list is sent again if its answer is lost
        home.take(home.told())
    assert fleet_key_id(home.invited) == second
    home.keys.files.remove(first)
    third = home.rotate()
    home.take(home.told())
    assert fleet_key_id(home.invited) == third
    assert (home.state_dir / RECEIVED_FILE_NAME).stat().st_mode & 0o077 == 0


def test_nobody_takes_a_node_back_to_an_earlier_key(home: Home) -> None:
    """Anybody with access to the server's port can repeat an earlier message."""
    home.rotate()
    third = home.keys.files.create()
    earlier = home.told()  # it is sealed with the third one too
    home.keys.files.use(third)
    home.take(home.told())
    with pytest.raises(ValueError, match="the node already has a later key"):
        home.take(earlier)
    assert fleet_key_id(home.invited) == third


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("{}", "holds no key"),
        ('{"number": 1, "key": "nothing"}', "holds no key"),
        ('["key"]', "holds no key"),
        ('{"number": "1", "key": KEY}', "holds no number"),
    ],
)
def test_what_is_no_key_is_refused_in_one_clause(home: Home, document: str, why: str) -> None:
    document = document.replace("KEY", json.dumps(home.keys.public_pem()))
    told = forged(home.keys.own[0], home.invited, document)
    with pytest.raises(ValueError, match=why):
        home.take(told)


def forged(by: EllipticCurvePrivateKey, invitation: Invitation, document: str) -> SealedKey:
    """A message to a node with another person's key."""
    fresh = Fresh.made()
    place = PayloadPlace(invitation.node, "", "", FLEET_KEY)
    receiver = private_key(invitation.key).public_key()
    metadata, data = seal([by], [receiver], place, document.encode(), fresh)
    said = {name: text.decode() for name, text in metadata.items()}
    return SealedKey(metadata=said, sealed=base64.b64encode(data).decode())


def test_a_key_that_somebody_else_tells_or_that_is_told_to_another_node_is_refused(home: Home) -> None:
    document = json.dumps({"number": 2**62, "key": home.keys.public_pem()})
    with pytest.raises(ValueError, match="sealed by somebody else"):
        home.take(forged(generate_private_key(SECP256R1()), home.invited, document))
    home.invitation("n2")
    with pytest.raises(ValueError, match="another key"):
        home.take(home.told("n2"))
    with pytest.raises(ValueError, match="it is not sealed"):
        home.take(SealedKey(sealed="?"))
    assert not (home.state_dir / RECEIVED_FILE_NAME).exists()


def test_a_new_invitation_ends_what_was_told_before_even_by_a_thief(home: Home) -> None:
    """The thief has the earlier key, and the server's port."""
    stolen = home.keys.own[0]
    theirs = FleetSealingKeys(open_fleet(home.fleet.directory.with_name("theirs"), now()), now)
    home.take(forged(stolen, home.invited, json.dumps({"number": 2**62, "key": theirs.public_pem()})))
    assert fleet_key_id(home.invited) == theirs.current
    second = home.rotate()
    keep_membership(home.state_dir, home.invitation())
    assert fleet_key_id(home.invited) == second
    again = forged(stolen, home.invited, json.dumps({"number": 2**62, "key": theirs.public_pem()}))
    with pytest.raises(ValueError, match="sealed by somebody else"):
        home.take(again)
    assert read_earlier_fleet_keys(home.state_dir) == (theirs.public_pem(),), "the list on its disk is sealed with that"


def test_a_broken_file_is_named_and_a_new_invitation_mends_it(home: Home) -> None:
    for text in ("", "[]", "{}", '{"invitation": "", "number": "x", "key": ""}'):
        (home.state_dir / RECEIVED_FILE_NAME).write_text(text)
        with pytest.raises(SettingsInvalid, match="cannot be read: join with a new invitation"):
            read_membership(home.state_dir)
        keep_membership(home.state_dir, invited := home.invitation())
        assert read_membership(home.state_dir) == invited


def test_what_was_told_stays_if_the_same_invitation_is_used_again_and_goes_with_the_membership(home: Home) -> None:
    before = home.invited
    second = home.rotate()
    home.take(home.told())
    keep_membership(home.state_dir, before)
    assert fleet_key_id(home.invited) == second
    forget_membership(home.state_dir)
    assert not list(home.state_dir.iterdir())


def test_an_invitation_without_a_key_has_no_id() -> None:
    assert fleet_key_id(replace(Invitation(*(["x"] * 9)), fleet_key="none")) == ""
