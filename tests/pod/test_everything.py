"""A Pod with every field set is admitted, and unchanged by a round trip."""

from collections.abc import Iterator

from pydantic import BaseModel

from syncpod.pod import parse_pod, pod_to_wire, validate_pod, with_defaults
from tests.pod.everything import EVERYTHING

LEFT_OUT = {
    "ObjectMeta": {
        "self_link", "resource_version", "generation", "creation_timestamp", "deletion_timestamp",
        "deletion_grace_period_seconds", "owner_references", "finalizers", "managed_fields",
    },
    "Pod": {"status"},
    # Another name with the FQDN, and gates with a node's name, are refused; ephemeral containers come later.
    "PodSpec": {"ephemeral_containers", "hostname_override", "scheduling_gates"},
    "PodSecurityContext": {"windows_options"},
    "SecurityContext": {"windows_options"},
    "TypedObjectReference": {"namespace"},
}  # fmt: skip
"""The fields left out, by model: those of an API server or another system, or incompatible with the rest."""


def records(value: object) -> Iterator[BaseModel]:
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from records(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from records(each)


def test_the_example_sets_every_field() -> None:
    empty: dict[type[BaseModel], set[str]] = {}
    for record in records(parse_pod(EVERYTHING)):
        unset = {name for name in type(record).model_fields if getattr(record, name) in (None, (), {}, "")}
        empty[type(record)] = empty.get(type(record), unset) & unset
    missing = {model.__name__: unset - LEFT_OUT.get(model.__name__, set()) for model, unset in empty.items()}
    assert {name: unset for name, unset in missing.items() if unset and name != "PodStatus"} == {}


def test_the_example_passes_validation() -> None:
    assert validate_pod(with_defaults(parse_pod(EVERYTHING))) == ()


def test_the_example_survives_a_round_trip() -> None:
    written = pod_to_wire(parse_pod(EVERYTHING))
    assert parse_pod(written) == parse_pod(EVERYTHING)
