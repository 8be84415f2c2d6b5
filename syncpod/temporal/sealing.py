"""The codecs of a fleet and of its nodes: messages between them are sealed, and the fleet's own data is encrypted.

The fleet's codec recognizes a node's activity by its task queue, and seals its payloads. All other payloads are signed
and encrypted as those of a single node (`syncpod.temporal.signing`). A worker's codec must not raise, since that would
fail the workflow task again and again. So an answer that the node has not sealed becomes a `Refused`, as an unsigned
result of a step does. The node's codec does the same with payloads that the fleet has not sealed: the activity then
fails before it begins.

The fleet's codec raises for one thing: a payload that is encrypted with a key that the fleet does not have. A fleet may
have workers on several machines, and one of them may receive a new key late. The task is retried until the worker has
the key. Each payload names its fleet. A workflow's payload from another fleet is refused instead, since no later key
would decrypt it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from syncpod.messages.encryption import FLEET, KEY, Undecipherable, is_encrypted, is_key_missing, is_of_another_fleet
from syncpod.messages.sealing import (
    Fresh,
    Unsealable,
    is_sealed,
    open_sealed,
    public_key_id,
    receiver_ids,
    seal,
)
from syncpod.messages.signature import FIELDS, Keys, PayloadPlace
from syncpod.temporal.encryption import decrypted
from syncpod.temporal.failures import EncodedFailureConverter
from syncpod.temporal.missing_key import UnopenedAnswers
from syncpod.temporal.signing import ENCODING, REFUSED, SignablePayloadConverter, SigningCodec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

QUEUE_PREFIX: Final = "fleet-node/"
"""The beginning of the name of a node's task queue, before the node's name. Payloads on such a queue are sealed."""
_UNSEALED: Final = "it is not sealed"
_NOT_ELLIPTIC: Final = "a key of the invitation is not an elliptic-curve key"


class FleetKeys(Protocol):
    """The fleet's own keys, and those of its nodes."""

    @property
    def fleet(self) -> str:
        """The fleet's id."""
        ...

    @property
    def own(self) -> Sequence[EllipticCurvePrivateKey]:
        """The fleet's private keys, first the one in use. There are several while the key is being changed."""
        ...

    def opening(self, ids: Sequence[str]) -> Sequence[EllipticCurvePrivateKey]:
        """Return the fleet's keys; first read them again if none of them has one of these ids."""
        ...

    def receiving(self, node: str) -> Sequence[EllipticCurvePublicKey]:
        """Return the keys of the node's certificates that are in force."""
        ...

    def known(self, node: str) -> Sequence[EllipticCurvePublicKey]:
        """Return the keys of all certificates that a node ever had, since histories have payloads sealed with them."""
        ...


_ID: Final = re.compile(r"[0-9a-f]{16}")
"""A key's id. A node may have written any text in its place."""
_unopened = UnopenedAnswers()


class FleetCodec(PayloadCodec, WithSerializationContext):
    """Seals messages to nodes, opens their answers; signs and encrypts everything else."""

    def __init__(
        self, keys: Keys, sealing: FleetKeys, *, verifies: bool, place: PayloadPlace | None = None, node: str = ""
    ) -> None:
        """`keys` must encrypt; `verifies` is True in a worker, as for a :class:`SigningCodec`."""
        self._keys, self._sealing, self._verifies, self._place, self._node = keys, sealing, verifies, place, node
        self._signing = SigningCodec(keys, verifies=verifies)

    def with_context(self, context: SerializationContext) -> FleetCodec:
        """Return the codec for a workflow's or an activity's payloads."""
        place = _place(context)
        node = ""
        if isinstance(context, ActivitySerializationContext):
            prefix, found, name = (context.activity_task_queue or "").partition(QUEUE_PREFIX)
            node = name if found and not prefix else ""
        if place is None:
            return self
        placed = FleetCodec(self._keys, self._sealing, verifies=self._verifies, place=place, node=node)
        placed._signing = self._signing.with_context(context)
        return placed

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Seal, or sign and encrypt."""
        if not self._node or self._place is None:
            encoded = await self._signing.encode(payloads)
            return [self._named(*each) for each in zip(payloads, encoded, strict=True)]
        # If no certificate of the node is in force, nobody can open the payload; but nobody can poll for it either.
        receivers = self._sealing.receiving(self._node)
        return [_sealed(self._sealing.own, receivers, self._place, _unmarked(payload)) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Open or decrypt payloads; in a worker, also add the result of each signature check.

        Raises Undecipherable for a payload encrypted with a key that the fleet does not have. Outside a worker, raises
        it also for any other payload that was not encrypted with the fleet's keys.
        """
        if not self._node or self._place is None:
            if not self._verifies:
                return [self._read(payload) for payload in payloads]
            for payload in payloads:
                if not self._is_refused(payload):
                    self._require_key(payload)
            return await self._signing.decode(payloads)
        place, known = self._place, self._sealing.known(self._node)
        opened = []
        for payload in payloads:
            try:
                own = self._sealing.opening(receiver_ids(payload.metadata))
                opened.append(_opened(own, known, place, payload))
            except Unsealable as why:
                if self._verifies and (missing := self.missing(payload)):
                    _unopened.say(self._node, missing)
                opened.append(Payload(metadata={ENCODING: REFUSED}, data=str(why).encode()))
        return opened

    def missing(self, payload: Payload) -> list[str]:
        """Return the ids of the keys that would open a node's sealed payload; [] if the fleet has one of them."""
        return self.lacking(receiver_ids(payload.metadata))

    def lacking(self, receivers: Sequence[str]) -> list[str]:
        """Return the key ids among `receivers`, which a node wrote; [] if the fleet has one of these keys."""
        ids = [each for each in receivers if _ID.fullmatch(each)]
        own = {public_key_id(each.public_key()) for each in self._sealing.opening(ids)}
        return [] if own & set(ids) else ids

    def _named(self, plain: Payload, encoded: Payload) -> Payload:
        """Return the encoded payload, with the fleet's id added unless `plain` was already encrypted."""
        if is_encrypted(plain.metadata):
            return encoded
        return Payload(metadata={**encoded.metadata, FLEET: self._sealing.fleet.encode()}, data=encoded.data)

    def _require_key(self, payload: Payload) -> None:
        if is_key_missing(self._keys.by_id, payload.metadata):
            named = payload.metadata.get(KEY, b"").decode(errors="replace")[:64]
            raise Undecipherable(f"it is encrypted with key {named!r}, which the fleet does not have here")

    def _is_refused(self, payload: Payload) -> bool:
        """Say whether to refuse a payload as another fleet's. A step's payload passes: the step may be that fleet's."""
        is_of_step = self._place is not None and bool(self._place.activity_type)
        return not is_of_step and is_of_another_fleet(self._sealing.fleet, payload.metadata)

    def _read(self, payload: Payload) -> Payload:
        if not is_encrypted(payload.metadata):
            raise Undecipherable("it is not encrypted, so no worker of the fleet has written it")
        self._require_key(payload)
        return decrypted(self._keys.by_id, self._place, payload)


class FleetKey:
    """The fleet's public key that a node trusts. It may change while the node is connected."""

    def __init__(self, pem: str) -> None:
        self.pem = pem
        self._read: tuple[str, EllipticCurvePublicKey] | None = None

    @property
    def public(self) -> EllipticCurvePublicKey:
        """The key. Raises ValueError."""
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        if self._read is None or self._read[0] != self.pem:
            key = load_pem_public_key(self.pem.encode())
            if not isinstance(key, EllipticCurvePublicKey):
                raise ValueError(_NOT_ELLIPTIC)
            self._read = self.pem, key
        return self._read[1]


class NodeCodec(PayloadCodec, WithSerializationContext):
    """Opens payloads that the fleet has sealed for this node, and seals the node's answers for the fleet."""

    def __init__(
        self,
        own: Sequence[EllipticCurvePrivateKey],
        fleet: FleetKey,
        place: PayloadPlace | None = None,
    ) -> None:
        """`own` has the key of the node's invitation, then keys of earlier ones: payloads may be sealed for each.

        `fleet` is the fleet's key that the node trusts; it is read anew for each payload.
        """
        self._own, self._fleet, self._place = own, fleet, place

    def with_context(self, context: SerializationContext) -> NodeCodec:
        """Return the codec for an activity's payloads."""
        place = _place(context)
        return NodeCodec(self._own, self._fleet, place) if place is not None else self

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Seal for the fleet."""
        place = self._place or PayloadPlace("", "")
        return [_sealed(self._own[:1], [self._fleet.public], place, payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Open payloads that the fleet, or an earlier try of this node, has sealed.

        Any other payload becomes a `Refused`, with which no activity begins (`syncpod.temporal.sealed_questions`).
        """
        place = self._place or PayloadPlace("", "")
        opened = []
        for payload in payloads:
            try:
                opened.append(_opened(self._own, [self._fleet.public], place, payload))
            except Unsealable as why:
                opened.append(Payload(metadata={ENCODING: REFUSED}, data=str(why).encode()))
        return opened


def fleet_converter(codec: FleetCodec | NodeCodec) -> DataConverter:
    """Return the data converter of a client or worker of the fleet's server; it encodes the texts of failures too."""
    return DataConverter(
        payload_converter_class=SignablePayloadConverter,
        failure_converter_class=EncodedFailureConverter,
        payload_codec=codec,
    )


def node_codec(key_pem: str, fleet: FleetKey) -> NodeCodec:
    """Return a node's codec from the `key` of its invitation and the fleet's key. Raises ValueError."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    own = load_pem_private_key(key_pem.encode(), password=None)
    if not isinstance(own, EllipticCurvePrivateKey):
        raise ValueError(_NOT_ELLIPTIC)
    assert fleet.public  # an invitation that cannot be used is refused before anything is sent
    return NodeCodec([own], fleet)


def _place(context: SerializationContext) -> PayloadPlace | None:
    match context:
        case WorkflowSerializationContext(namespace=namespace, workflow_id=workflow_id):
            return PayloadPlace(namespace, workflow_id or "")
        case ActivitySerializationContext():
            # The id of an activity is left out: it is not known when the activity is scheduled.
            return PayloadPlace(context.namespace, context.workflow_id or "", "", context.activity_type or "")
    return None


def _unmarked(payload: Payload) -> Payload:
    """Return a payload without the mark for a signature, since the seal authenticates its writer."""
    said = {name: value for name, value in payload.metadata.items() if name not in FIELDS}
    return Payload(metadata=said, data=payload.data) if len(said) < len(payload.metadata) else payload


def _sealed(
    own: Sequence[EllipticCurvePrivateKey],
    receivers: Sequence[EllipticCurvePublicKey],
    place: PayloadPlace,
    payload: Payload,
) -> Payload:
    if is_sealed(payload.metadata):
        return payload
    metadata, data = seal(own, receivers, place, payload.SerializeToString(), Fresh.made())
    return Payload(metadata=metadata, data=data)


def _opened(
    own: Sequence[EllipticCurvePrivateKey],
    senders: Sequence[EllipticCurvePublicKey],
    place: PayloadPlace,
    payload: Payload,
) -> Payload:
    """Return the content of a sealed payload. Raises Unsealable."""
    if not is_sealed(payload.metadata):
        raise Unsealable(_UNSEALED)
    inner = open_sealed(own, senders, place, dict(payload.metadata), payload.data)
    try:
        return Payload.FromString(inner)
    except Exception:  # noqa: BLE001  # protobuf's own errors: whoever has the key may have sealed anything
        raise Unsealable("it holds no payload") from None
