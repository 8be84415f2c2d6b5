"""A signature is valid for one payload in one place only.

Holds: Only users who can read the key in the state directory can command a signed node.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from syncpod.messages.signature import KEY, NUMBER, PURPOSE, SIGNATURE, PayloadPlace, key_id, signed_metadata, verify

KEYS = st.binary(min_size=32, max_size=32)
NAMES = st.text(max_size=12)
PLACES = st.builds(PayloadPlace, NAMES, NAMES, NAMES, NAMES)
METADATA = st.dictionaries(NAMES, st.binary(max_size=12), max_size=3)
NUMBERS = st.integers(min_value=0, max_value=2**59)


@given(KEYS, PLACES, METADATA, st.binary(max_size=40), NAMES, NUMBERS)
def test_a_signature_says_what_it_was_made_for(
    key: bytes, place: PayloadPlace, metadata: dict[str, bytes], data: bytes, purpose: str, number: int
) -> None:
    signed = signed_metadata(key, place, metadata, data, purpose=purpose, number=number)
    verdict = verify({key_id(key): key}, place, signed, data)
    assert (verdict.purpose, verdict.number, verdict.refusal) == (purpose, number, "")
    unsaid = {name: value for name, value in metadata.items() if not name.startswith("syncpod-")}
    assert unsaid.items() <= signed.items(), "what else the metadata says is left as it is"


@given(KEYS, PLACES, PLACES, METADATA, st.binary(max_size=40), st.binary(max_size=40), NUMBERS)
def test_a_signature_holds_nowhere_else(
    key: bytes,
    place: PayloadPlace,
    other: PayloadPlace,
    metadata: dict[str, bytes],
    data: bytes,
    more: bytes,
    number: int,
) -> None:
    signed = signed_metadata(key, place, metadata, data, purpose="signal/delete_pod", number=number)
    keys = {key_id(key): key}
    assert bool(verify(keys, other, signed, data).refusal) == (other != place)
    assert bool(verify(keys, place, signed, more).refusal) == (more != data)
    for name in signed:
        if name != KEY:
            assert verify(keys, place, {**signed, name: signed[name] + b"0"}, data).refusal, name
    assert verify(keys, place, {**signed, "more": b""}, data).refusal or signed.get("more") == b""
    assert verify(keys, place, {**signed, PURPOSE: b"signal/renew"}, data).refusal
    assert verify(keys, place, {**signed, NUMBER: b"7"}, data).refusal or number == 7


@given(KEYS, KEYS, PLACES, st.binary(max_size=40))
def test_a_key_that_is_not_known_signs_nothing(key: bytes, another: bytes, place: PayloadPlace, data: bytes) -> None:
    signed = signed_metadata(key, place, {}, data, purpose="start")
    assert bool(verify({key_id(another): another}, place, signed, data).refusal) == (key != another)
    renamed = {**signed, KEY: key_id(another).encode()}
    assert bool(verify({key_id(another): another}, place, renamed, data).refusal) == (key != another)


@given(st.dictionaries(st.sampled_from([KEY, PURPOSE, NUMBER, SIGNATURE, "encoding"]), st.binary(max_size=9)), KEYS)
def test_nonsense_is_refused_and_raises_nothing(metadata: dict[str, bytes], key: bytes) -> None:
    assert verify({key_id(key): key}, PayloadPlace("default", "pod/default/web"), metadata, b"{}").refusal
