"""ConfigMaps and Secrets sent from a fleet to its nodes: who can decrypt them, and what a node stores.

Holds: No history of a fleet has an object's content in the clear.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from syncpod.agent.fleet.objects import OF_FLEET, FleetObjects
from syncpod.gate.authority import Fleet, now, open_fleet
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.fleet_objects import SealedObject, may_refer
from syncpod.messages.sealing import Unsealable
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import Secret
from syncpod.settings.invitation import Invitation

PASSWORD = "c0rrect horse"
KEY = "Secret/default/keys"
REF = ObjectRef("Secret", "default", "keys")


@dataclass
class Sealed:
    """A fleet with a Secret, and two nodes of it."""

    fleet: Fleet
    keys: FleetSealingKeys
    sealing: ObjectSealing

    def invitation(self, node: str) -> Invitation:
        pair = self.fleet.issue(node, timedelta(hours=1), now())
        return Invitation(
            fleet=self.fleet.id,
            node=node,
            address="127.0.0.1:1",
            server_name=self.fleet.server_name,
            namespace="default",
            authorities=self.fleet.authorities_pem(),
            certificate=pair.certificate,
            key=pair.key,
            fleet_key=self.keys.public_pem(),
        )

    def given(self, node: str, name: str = "keys", **secret: Any) -> SealedObject:
        """Seal a Secret for the fleet, and then for a node."""
        key = f"Secret/default/{name}"
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, **secret}
        document.setdefault("data", {"password": base64.b64encode(PASSWORD.encode()).decode()})
        metadata, kept = self.sealing.keep(key, json.dumps(document).encode())
        assert PASSWORD.encode() not in kept
        metadata, data = self.sealing.give(key, node, metadata, kept)
        sealed = base64.b64encode(data).decode()
        return SealedObject(kind="Secret", namespace="default", name=name, metadata=metadata, sealed=sealed)


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    fleet = open_fleet(tmp_path / "fleet", now())
    keys = FleetSealingKeys(fleet, now)
    return Sealed(fleet, keys, ObjectSealing(keys))


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "state", tmp_path / "memory")


def test_a_node_opens_what_is_sealed_for_it_and_another_does_not(sealed: Sealed, store: ObjectStore) -> None:
    one, other = sealed.invitation("n1"), sealed.invitation("n2")
    given = sealed.given("n1")
    assert FleetObjects(other, store).keep([given]) == {KEY: "it was sealed for another key"}
    assert store.get(REF) is None
    assert FleetObjects(one, store).keep([given]) == {}
    held = store.get(REF)
    assert isinstance(held, Secret) and held.metadata.annotations == {OF_FLEET: sealed.fleet.id}
    assert base64.b64decode(held.data["password"]).decode() == PASSWORD


def test_an_object_under_another_name_is_refused(sealed: Sealed, store: ObjectStore) -> None:
    node = FleetObjects(sealed.invitation("n1"), store)
    renamed = sealed.given("n1").model_copy(update={"name": "other"})
    assert "altered" in node.keep([renamed])["Secret/default/other"]
    foreign = FleetSealingKeys(open_fleet(sealed.fleet.directory.parent / "foreign", now()), now)
    with pytest.raises(Unsealable):
        ObjectSealing(foreign).give(KEY, "n1", *sealed.sealing.keep(KEY, b"{}"))


def test_what_is_no_longer_wanted_goes_and_the_nodes_own_stays(sealed: Sealed, store: ObjectStore) -> None:
    node = FleetObjects(sealed.invitation("n1"), store)
    own = Secret.model_validate(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own", "namespace": "default"}}
    )
    store.put(own)
    refused = node.keep([sealed.given("n1"), sealed.given("n1", "own")])
    assert refused == {"Secret/default/own": "the node has an object of its own with this name"}
    kept = SealedObject(kind="Secret", namespace="default", name="keys")
    assert node.keep([kept]) == {} and store.get(REF) is not None, "it keeps what it has"
    assert node.keep([]) == {}
    assert [each.metadata.name for each in store.list("Secret")] == ["own"]


def test_an_immutable_one_that_was_made_anew_replaces_the_earlier(sealed: Sealed, store: ObjectStore) -> None:
    node = FleetObjects(sealed.invitation("n1"), store)
    for word in ("one", "two"):
        data = {"password": base64.b64encode(word.encode()).decode()}
        assert node.keep([sealed.given("n1", immutable=True, data=data)]) == {}
    held = store.get(REF)
    assert isinstance(held, Secret) and base64.b64decode(held.data["password"]) == b"two"


def test_equal_content_has_an_equal_version_and_only_with_this_key(sealed: Sealed, tmp_path: Path) -> None:
    one, again, other = (sealed.sealing.version(each) for each in (b"a", b"a", b"b"))
    foreign = ObjectSealing(FleetSealingKeys(open_fleet(tmp_path / "foreign", now()), now))
    assert one == again != other and foreign.version(b"a") != one


def test_a_node_with_a_new_invitation_opens_what_was_sealed_before_until_it_is_sealed_anew(
    sealed: Sealed, store: ObjectStore
) -> None:
    before = sealed.invitation("n1")
    kept = sealed.given("n1")
    renewed = sealed.invitation("n1")
    assert FleetObjects(renewed, store).keep([kept]) == {KEY: "it was sealed for another key"}
    node = FleetObjects(renewed, store, [before.key])
    assert node.keep([kept]) == {} and node.needs_earlier and store.get(REF) is not None
    assert node.keep([sealed.given("n1")]) == {} and not node.needs_earlier
    assert node.key_id != FleetObjects(before, store).key_id
    assert FleetObjects(replace(renewed, key="none"), store).key_id == ""


def test_objects_open_with_the_key_that_a_node_trusts_while_the_fleet_has_several(
    sealed: Sealed, store: ObjectStore
) -> None:
    """A node may take the new key, or be killed just before: the list on its disk is sealed with both."""
    before = sealed.invitation("n1")
    old = sealed.given("n1")
    second = sealed.keys.files.create()
    sealed.keys.files.use(second)
    sealed.keys.opening([second])
    both, node = sealed.given("n1"), FleetObjects(before, store)
    assert node.keep([both]) == {}
    node.trust(sealed.keys.public_pem())
    assert node.keep([both]) == {} and not node.needs_earlier
    assert node.keep([old]) == {KEY: "it was sealed by somebody else"}


def test_after_a_new_invitation_the_list_on_disk_opens_with_the_earlier_key_of_the_fleet(
    sealed: Sealed, store: ObjectStore
) -> None:
    before, kept = sealed.invitation("n1"), sealed.given("n1")
    second = sealed.keys.files.create()
    sealed.keys.files.use(second)
    sealed.keys.opening([second])
    node = FleetObjects(sealed.invitation("n1"), store, [before.key], [before.fleet_key])
    assert node.keep([kept]) == {} and node.needs_earlier and store.get(REF) is not None
    assert node.keep([sealed.given("n1")]) == {} and not node.needs_earlier


@pytest.mark.parametrize(
    ("spec", "refers"),
    [
        ({"containers": [{"name": "a", "image": "b"}]}, False),
        ({"containers": [{"name": "a", "env": [{"valueFrom": {"secretKeyRef": {"name": "k"}}}]}]}, True),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}]}, True),
        ({"imagePullSecrets": [{"name": "pull"}]}, True),
    ],
)
def test_pods_that_may_refer_to_objects(spec: dict[str, Any], refers: bool) -> None:
    assert may_refer({"spec": spec}) is refers
