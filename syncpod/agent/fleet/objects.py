"""Decrypts the fleet's ConfigMaps and Secrets with the node's key, and stores them beside the node's own objects.

They arrive in the fleet's list, and stay encrypted in its file on disk. So a decrypted Secret is only in memory, and
after a reboot it is decrypted again, even without contact with the fleet.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Final

from syncpod.agent.fleet.received_key import decoded, private_key, public_key
from syncpod.messages.fleet_objects import GIVEN, SealedObject
from syncpod.messages.sealing import Unsealable, open_sealed
from syncpod.messages.signature import PayloadPlace
from syncpod.objects import KINDS, ObjectRef, ObjectRefused, ObjectStore, ObjectUnreadable, ref_of
from syncpod.pod import ConfigMap, Secret
from syncpod.settings.invitation import Invitation

log = logging.getLogger(__name__)

OF_FLEET: Final = "syncpod.dev/fleet"
"""The annotation of objects from a fleet; its value is the fleet's id. Objects without it are the node's own."""


class FleetObjects:
    """The objects that one fleet keeps on its node."""

    def __init__(
        self, invitation: Invitation, store: ObjectStore, earlier: Sequence[str] = (), earlier_fleet: Sequence[str] = ()
    ) -> None:
        """`earlier` has the private keys of earlier invitations, and `earlier_fleet` earlier public keys of the fleet.

        All are PEM. The list on disk may still be encrypted for an earlier key of the node, or sealed with an earlier
        key of the fleet.
        """
        self._fleet, self._node, self._store = invitation.fleet, invitation.node, store
        self._key, self._fleet_key = invitation.key, invitation.fleet_key
        self._earlier, self._earlier_fleet = tuple(earlier), tuple(earlier_fleet)
        self.needs_earlier = False
        """Whether one of the objects of the last `keep` could be opened only with earlier keys."""

    def trust(self, fleet_key: str) -> None:
        """Accept objects with this public key of the fleet (PEM) from now on."""
        self._fleet_key = fleet_key

    @property
    def key_id(self) -> str:
        """A digest of the public key for which the fleet must encrypt; "" if the invitation's key is invalid."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        try:
            public = private_key(self._key).public_key()
        except ValueError:
            return ""
        return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:16]

    def keep(self, objects: Sequence[SealedObject]) -> dict[str, str]:
        """Make the store hold exactly these objects of the fleet. Return why objects cannot be kept, by key.

        The node's own objects stay as they are. Blocks. Raises OSError.
        """
        wanted: dict[ObjectRef, ConfigMap | Secret] = {}
        refused: dict[str, str] = {}
        self.needs_earlier = False
        for each in objects:
            if not each.sealed:
                continue
            try:
                found = self._opened(each)
                wanted[ref_of(found)] = found
            except ValueError as wrong:
                refused[each.key] = str(wrong)
        for ref, found in wanted.items():
            if why := self._put(ref, found):
                refused[f"{ref.kind}/{ref.namespace}/{ref.name}"] = why
        unopened = {each.key for each in objects} - {f"{ref.kind}/{ref.namespace}/{ref.name}" for ref in wanted}
        for ref in self._held():
            if ref not in wanted and f"{ref.kind}/{ref.namespace}/{ref.name}" not in unopened:
                self._store.delete(ref)
                log.info("%s in namespace %s is removed: the fleet no longer keeps it on this node", ref, ref.namespace)
        return refused

    def _put(self, ref: ObjectRef, found: ConfigMap | Secret) -> str:
        """Store one object; return why that is impossible, "" if it was stored."""
        try:
            held = self._store.get(ref)
            if held is not None and OF_FLEET not in held.metadata.annotations:
                return "the node has an object of its own with this name"
            try:
                self._store.put(found)
            except ObjectRefused:  # the stored one is immutable, so the fleet has deleted and created it again
                self._store.delete(ref)
                self._store.put(found)
        except ValueError as wrong:  # an unreadable file, or an invalid name
            return str(wrong)
        return ""

    def _held(self) -> list[ObjectRef]:
        """Return the stored objects that came from this fleet or an earlier one."""
        found = []
        for kind in KINDS:
            try:
                held = self._store.list(kind)
            except ObjectUnreadable as wrong:
                log.warning("objects of the fleet may be left over: %s", wrong)
                continue
            found += [ref_of(each) for each in held if OF_FLEET in each.metadata.annotations]
        return found

    def _opened(self, sealed: SealedObject) -> ConfigMap | Secret:
        """Decrypt an object. Raises ValueError, whose text does not contain the object's data."""
        own, fleet = private_key(self._key), public_key(self._fleet_key)
        said = {name: text.encode() for name, text in sealed.metadata.items()}
        data = decoded(sealed.sealed)
        place = PayloadPlace(self._node, sealed.key, "", GIVEN)
        try:
            content = open_sealed([own], [fleet], place, said, data)
        except Unsealable:
            if not self._earlier and not self._earlier_fleet:
                raise
            owns = [own, *map(private_key, self._earlier)]
            fleets = [fleet, *map(public_key, self._earlier_fleet)]
            content = open_sealed(owns, fleets, place, said, data)
            self.needs_earlier = True
        try:
            document = json.loads(content)
            model = ConfigMap if document.get("kind") == "ConfigMap" else Secret
            found: ConfigMap | Secret = model.model_validate(document)
        except ValueError:  # the original text would contain the data
            raise Unsealable("it is neither a ConfigMap nor a Secret") from None
        if f"{found.kind}/{found.metadata.namespace or 'default'}/{found.metadata.name}" != sealed.key:
            raise Unsealable("it holds a different object")
        annotations = {**found.metadata.annotations, OF_FLEET: self._fleet}
        return found.model_copy(update={"metadata": found.metadata.model_copy(update={"annotations": annotations})})
