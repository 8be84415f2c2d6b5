"""The fleet's ConfigMaps and Secrets on a node: opened with the node's key, and kept where the node's own ones are.

They come with the fleet's list, which stays sealed on disk. So an opened Secret is only in memory, and after a reboot
it is there again even without the fleet.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Final

from syncpod.agent.fleet.told_key import decoded, private_key, public_key
from syncpod.messages.fleet_objects import GIVEN, SealedObject
from syncpod.messages.sealing import Unsealable, open_sealed
from syncpod.messages.signature import PayloadPlace
from syncpod.objects import KINDS, ObjectRef, ObjectRefused, ObjectStore, ObjectUnreadable, ref_of
from syncpod.pod import ConfigMap, Secret
from syncpod.settings.invitation import Invitation

log = logging.getLogger(__name__)

OF_FLEET: Final = "syncpod.dev/fleet"
"""The annotation of objects from a fleet, with the fleet's id. An object without it is the node's own."""


class FleetObjects:
    """The objects that one fleet keeps on its node."""

    def __init__(
        self, invitation: Invitation, store: ObjectStore, earlier: Sequence[str] = (), earlier_fleet: Sequence[str] = ()
    ) -> None:
        """`earlier` has the private keys of earlier invitations, and `earlier_fleet` the fleet's public ones, all PEM.

        A list on disk may still be sealed for the former, or only with the latter.
        """
        self._fleet, self._node, self._store = invitation.fleet, invitation.node, store
        self._key, self._fleet_key = invitation.key, invitation.fleet_key
        self._earlier, self._earlier_fleet = tuple(earlier), tuple(earlier_fleet)
        self.needs_earlier = False
        """One of the objects that were kept last is not sealed for the key of the invitation, with the fleet's key."""

    def trust(self, fleet_key: str) -> None:
        """Open with another key of the fleet from now on, PEM."""
        self._fleet_key = fleet_key

    @property
    def key_id(self) -> str:
        """A digest of the public key that the fleet must seal for; "" if the invitation's key is none."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        try:
            public = private_key(self._key).public_key()
        except ValueError:
            return ""
        return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:16]

    def keep(self, objects: Sequence[SealedObject]) -> dict[str, str]:
        """Make the store hold exactly these objects of the fleet. Return by key why an object cannot be kept.

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
        """Store one object; return why that is impossible, "" if it is done."""
        try:
            held = self._store.get(ref)
            if held is not None and OF_FLEET not in held.metadata.annotations:
                return "the node has an object of its own with this name"
            try:
                self._store.put(found)
            except ObjectRefused:  # the old one is immutable: the fleet has deleted it, and created it anew
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
        """Return an object that is sealed for this node. Raises ValueError, whose text does not show the content."""
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
        except ValueError:  # its text would show the content
            raise Unsealable("it is neither a ConfigMap nor a Secret") from None
        if f"{found.kind}/{found.metadata.namespace or 'default'}/{found.metadata.name}" != sealed.key:
            raise Unsealable("it holds a different object")
        annotations = {**found.metadata.annotations, OF_FLEET: self._fleet}
        return found.model_copy(update={"metadata": found.metadata.model_copy(update={"annotations": annotations})})
