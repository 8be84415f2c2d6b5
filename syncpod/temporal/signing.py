"""Signs the commands to a node or a fleet, and gives workflows and steps the result of each signature check.

A client marks the payloads of its starts, signals and updates with their purpose and a number (:class:`SigningClient`),
and a worker marks those of its steps and of runs that continue as new (`syncpod.temporal.signed_steps`). The codec
signs marked payloads for the workflow that the SDK names in the serialization context. A worker's answers to others
(queries, updates, the result of a run) are not signed, so nobody can make the worker sign a command.

A worker's codec verifies. It never raises, since an exception would fail the workflow task, again and again. Instead a
workflow's input becomes a :class:`~syncpod.messages.signed.Received`, whose handler refuses it by name, and a step's
input or result that is not accepted becomes a :class:`~syncpod.messages.signed.Refused`.

If the node's keys encrypt, every payload is encrypted after it was signed, and decrypted before it is verified
(`syncpod.messages.encryption`). Unsigned answers are encrypted too. A payload that is not encrypted is still read, so a
node may begin to encrypt while it has pods.

Replay: the result of a signature check depends only on the payload and the keys, and keys are kept. So it is the same
at each replay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Self

from temporalio import client
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    EncodingPayloadConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from temporalio.exceptions import ApplicationError

from syncpod.messages.encryption import ENCRYPTED, Undecipherable, is_encrypted
from syncpod.messages.signature import (
    NUMBER,
    PURPOSE,
    SIGNATURE,
    Keys,
    PayloadPlace,
    SignatureCheck,
    signed_metadata,
    verify,
)
from syncpod.messages.signed import INPUT, NOT_JSON, OVERTAKEN, RESULT, START, Marked, Received, Refused
from syncpod.temporal.encryption import decrypted, encrypted, readable
from syncpod.temporal.hiding import HidingConverter

RECEIVED: Final = b"syncpod/received"
"""The encoding of a workflow's input after the codec: the payload as it was, and the result of its signature check."""
REFUSED: Final = b"syncpod/refused"
"""The encoding of a step's payload that was not accepted; its data is the reason."""
ENCODING: Final = "encoding"
INNER: Final = "syncpod-encoding"
REFUSAL: Final = "syncpod-refusal"
UNREADABLE: Final = "the node's data in Temporal is encrypted: only the keys in the node's state directory decrypt it"
CONTINUED: Final = -1
"""The number in a mark that the codec replaces by the next number, since a workflow must not read the clock."""


# --- the converter: values to sign, and values with the results of their signature checks -----------------------------


class SignablePayloadConverter(PydanticPayloadConverter):
    """Converts to and from pydantic's JSON, with marks for the codec, and with its results of signature checks."""

    def __init__(self) -> None:
        """Use shared converters: the SDK makes a new instance of this class for each activation and each run."""
        self.converters = _shared_converters()

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """Encode values. The metadata of a marked value names the purpose of its signature."""
        payloads = super().to_payloads([value.value if isinstance(value, Marked) else value for value in values])
        for payload, value in zip(payloads, values, strict=True):
            if isinstance(value, Marked):
                payload.metadata[PURPOSE] = value.purpose.encode()
                payload.metadata[NUMBER] = str(value.number).encode()
        return payloads


class _ReceivedConverter(EncodingPayloadConverter):
    """Decodes a workflow's input, for any requested type, into a `Received` with the result of the signature check."""

    def __init__(self, inner: Mapping[bytes, EncodingPayloadConverter]) -> None:
        self._inner = inner

    @property
    def encoding(self) -> str:
        return RECEIVED.decode()

    def to_payload(self, value: Any) -> Payload | None:  # only the codec makes such payloads
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        said = payload.metadata
        refusal = said[REFUSAL].decode()
        inner = Payload(metadata={ENCODING: said[INNER]}, data=payload.data)
        try:
            value = self._inner[said[INNER]].from_payload(inner)
        except Exception:  # noqa: BLE001  # a converter may raise anything, and the payload stays in the history
            return Received(None, refusal=refusal or NOT_JSON)
        if refusal:
            return Received(value, refusal=refusal)
        return Received(value, said[PURPOSE].decode(errors="replace"), int(said[NUMBER]))


class _RefusedConverter(EncodingPayloadConverter):
    """Decodes a step's payload that was not accepted, for any requested type, into a `Refused`."""

    @property
    def encoding(self) -> str:
        return REFUSED.decode()

    def to_payload(self, value: Any) -> Payload | None:  # only the codec makes such payloads
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        return Refused(payload.data.decode(errors="replace"))


class _EncryptedConverter(EncodingPayloadConverter):
    """Raises Undecipherable for a payload that is still encrypted, after a codec or without one."""

    @property
    def encoding(self) -> str:
        return ENCRYPTED.decode()

    def to_payload(self, value: Any) -> Payload | None:  # only the codec makes such payloads
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        raise Undecipherable(UNREADABLE)


@cache
def _shared_converters() -> Mapping[bytes, EncodingPayloadConverter]:
    """Return pydantic's converters and ours, by encoding. Their only state is pydantic's adapters of types."""
    hiding = HidingConverter()
    inner = {**PydanticPayloadConverter().converters, hiding.encoding.encode(): hiding}
    ours = (_ReceivedConverter(inner), _RefusedConverter(), _EncryptedConverter())
    return {**inner, **{each.encoding.encode(): each for each in ours}}


# --- the codec --------------------------------------------------------------------------------------------------------


class SigningCodec(PayloadCodec, WithSerializationContext):
    """Signs marked payloads, and encrypts all payloads if the node encrypts; in a worker, it also verifies payloads."""

    def __init__(self, keys: Keys, *, verifies: bool, place: PayloadPlace | None = None) -> None:
        """Sign and verify for a place, which :meth:`with_context` sets; without one nothing is signed or verified."""
        self._keys, self._verifies, self._place = keys, verifies, place

    def with_context(self, context: SerializationContext) -> SigningCodec:
        """Return the codec for a workflow's or a step's payloads."""
        match context:
            case WorkflowSerializationContext(namespace=namespace, workflow_id=workflow_id):
                place = PayloadPlace(namespace, workflow_id or "")
            case ActivitySerializationContext():
                names = (context.workflow_id, context.activity_id, context.activity_type)
                place = PayloadPlace(context.namespace, *(name or "" for name in names))
            case _:
                return self
        return SigningCodec(self._keys, verifies=self._verifies, place=place)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Sign marked payloads and the results of a worker's steps; then encrypt all payloads, if `encrypts` is set."""
        key = self._keys.current  # one key for both: the id beside a ciphertext names only one
        signed = [self._signed(payload, key) for payload in payloads]
        if not self._keys.encrypts:
            return signed
        place = self._place or PayloadPlace("", "")  # a payload without a place is encrypted too
        return [encrypted(key, place, payload) for payload in signed]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt payloads; in a worker, also add the result of each signature check."""
        place = self._place
        if not self._verifies or place is None:
            return [readable(self._keys.by_id, payload, place) for payload in payloads]
        judge = _of_step if place.activity_type else _of_workflow
        return [judge(*self._judged(payload, place)) for payload in payloads]

    def _signed(self, payload: Payload, key: bytes) -> Payload:
        place, said = self._place, dict(payload.metadata)
        if place is None or SIGNATURE in said or is_encrypted(said):
            return payload
        if PURPOSE in said:
            purpose, number = said[PURPOSE].decode(), int(said[NUMBER])
            number = self._keys.number() if number == CONTINUED else number
        elif place.activity_type and self._verifies:
            purpose, number = RESULT, 0
        else:
            return payload
        metadata = signed_metadata(key, place, said, payload.data, purpose=purpose, number=number)
        return Payload(metadata=metadata, data=payload.data)

    def _judged(self, payload: Payload, place: PayloadPlace) -> tuple[Payload, SignatureCheck]:
        """Return the payload, decrypted if possible, and the result of its signature check."""
        keys = self._keys.by_id
        if is_encrypted(payload.metadata):
            try:
                payload = decrypted(keys, place, payload)
            except Undecipherable as why:
                return payload, SignatureCheck(refusal=str(why))
        return payload, verify(keys, place, dict(payload.metadata), payload.data)


def _of_workflow(payload: Payload, check: SignatureCheck) -> Payload:
    """Return a workflow's payload with the result of its signature check."""
    inner = payload.metadata.get(ENCODING, b"")
    said = {ENCODING: RECEIVED, INNER: inner, REFUSAL: check.refusal.encode()}
    if not check.refusal:
        said |= {PURPOSE: check.purpose.encode(), NUMBER: str(check.number).encode()}
    return Payload(metadata=said, data=payload.data)


def numbered(payload: Payload) -> int:
    """Return the signed number of a workflow's payload, after the codec; 0 if it was not accepted, or has none."""
    said = payload.metadata
    return int(said[NUMBER]) if NUMBER in said and not said[REFUSAL] else 0


def _of_step(payload: Payload, check: SignatureCheck) -> Payload:
    """Return a step's payload if it is accepted, else a `REFUSED` payload with the reason."""
    refusal = check.refusal
    if not refusal and check.purpose not in (INPUT, RESULT):
        refusal = f"it was signed as {check.purpose}"
    return Payload(metadata={ENCODING: REFUSED}, data=refusal.encode()) if refusal else payload


@dataclasses.dataclass(frozen=True)
class _SigningConverter(DataConverter):
    """A data converter whose codec alone depends on the context."""

    def with_context(self, context: SerializationContext) -> Self:
        """Return a data converter for the payloads of a workflow or a step.

        The SDK's method makes all converters anew for each call and each context, which costs more than a signature.
        """
        if not isinstance(codec := self.payload_codec, SigningCodec):
            return super().with_context(context)
        placed = object.__new__(type(self))  # as copy.copy does, in a sixth of the time
        placed.__dict__.update(self.__dict__, payload_codec=codec.with_context(context))
        return placed


def signing_converter(plain: DataConverter, keys: Keys, *, verifies: bool) -> DataConverter:
    """Return a data converter that signs; with `verifies`, which is for a worker, it verifies too."""
    return _SigningConverter(
        payload_converter_class=plain.payload_converter_class,
        failure_converter_class=plain.failure_converter_class,
        payload_codec=SigningCodec(keys, verifies=verifies),
    )


# --- clients ----------------------------------------------------------------------------------------------------------


def is_overtaken(error: client.WorkflowUpdateFailedError) -> bool:
    """Return whether a workflow refused an update because it has already received a command with a later number.

    A new update would be accepted. The later command may be a start that was signed after the update, or one from a
    machine whose clock is ahead of this one.
    """
    return isinstance(error.cause, ApplicationError) and error.cause.type == OVERTAKEN


class SigningClient(client.Interceptor):
    """Marks a client's starts, signals, updates and activities, so that its codec signs them."""

    def __init__(self, number: Callable[[], int]) -> None:
        """Take the number of each command from `number`, which returns the next one."""
        self._number = number

    def intercept_client(self, next: client.OutboundInterceptor) -> client.OutboundInterceptor:  # the SDK's name
        """Wrap the client's calls."""
        return _Marks(next, self._number)


class _Marks(client.OutboundInterceptor):
    def __init__(self, next: client.OutboundInterceptor, number: Callable[[], int]) -> None:
        super().__init__(next)
        self._number = number

    def _marked(self, purpose: str, args: Sequence[Any]) -> list[Any]:
        """Return the arguments, marked; a command without arguments gets an empty one, to sign."""
        return [Marked(each, purpose, self._number()) for each in (args or ({},))]

    async def start_workflow(self, input: client.StartWorkflowInput) -> Any:  # the SDK's name
        # The start is numbered first: a workflow takes no command from before its start.
        input.args = self._marked(START, input.args)
        if input.start_signal:
            input.start_signal_args = self._marked(f"signal/{input.start_signal}", input.start_signal_args)
        return await super().start_workflow(input)

    async def signal_workflow(self, input: client.SignalWorkflowInput) -> None:  # the SDK's name
        input.args = self._marked(f"signal/{input.signal}", input.args)
        await super().signal_workflow(input)

    async def start_workflow_update(self, input: client.StartWorkflowUpdateInput) -> Any:  # the SDK's name
        input.args = self._marked(f"update/{input.update}", input.args)
        return await super().start_workflow_update(input)

    async def start_update_with_start_workflow(
        self,
        input: client.StartWorkflowUpdateWithStartInput,  # the SDK's name
    ) -> Any:
        start, update = input.start_workflow_input, input.update_workflow_input
        start.args = self._marked(START, start.args)
        update.args = self._marked(f"update/{update.update}", update.args)
        return await super().start_update_with_start_workflow(input)

    async def start_activity(self, input: client.StartActivityInput) -> Any:  # the SDK's name
        input.args = [Marked(each, INPUT) for each in input.args]
        return await super().start_activity(input)
