"""Parsing and formatting a document loses nothing, and admission of any document returns a pod or a sentence."""

from datetime import datetime
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncpod.pod import (
    Model,
    ObjectMeta,
    Pod,
    PodInvalid,
    PodSpec,
    PodStatus,
    admit,
    canonical_json,
    check_supported,
    load_documents,
    parse_pod,
    pod_to_wire,
    validate_pod,
    validate_update,
    with_defaults,
)
from syncpod.pod.wire import IntOrString, QuantityText

WORDS = st.sampled_from(
    ["a", "web", "work", "b-c", "", "a/b", "A B", "é", "yes", "1", "true", "null", "=", "'\"\\", "\n"]
)
QUANTITIES = st.sampled_from(["0", "1", "100m", "1.5Gi", "-1", "1e3", "1n"])
INTEGERS = st.sampled_from([-1, 0, 1, 80, 2**31 - 1])


def values(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    """Return wire values for an annotation."""
    if kind == QuantityText:
        return QUANTITIES
    if kind == IntOrString:
        return INTEGERS | WORDS
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*(values(argument, depth) for argument in arguments if argument is not type(None)))
    if origin is tuple:
        return st.lists(values(arguments[0], depth), max_size=2)
    if origin is dict:
        return st.dictionaries(WORDS, values(arguments[1], depth), max_size=2)
    if hasattr(kind, "__metadata__"):
        return values(arguments[0], depth)
    if isinstance(kind, type) and issubclass(kind, Model):
        return documents(kind, depth + 1)
    if kind is datetime:
        return st.sampled_from(["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00"])
    return {str: WORDS, int: INTEGERS, bool: st.booleans(), Any: st.just({"f:a": {}})}[kind]


@st.composite
def documents(draw: st.DrawFn, model: type[Model], depth: int = 0) -> dict[str, Any]:
    """Draw a document of a model, with few of its fields."""
    fields = model.model_fields
    names = draw(st.lists(st.sampled_from(sorted(fields)), unique=True, max_size=0 if depth > 5 else 4))
    drawn = {}
    for name in names:
        kind = fields[name].rebuild_annotation()
        drawn[str(fields[name].alias)] = draw(values(kind, depth))
    return drawn


PODS = st.fixed_dictionaries(
    {"metadata": documents(ObjectMeta), "spec": documents(PodSpec)}, optional={"status": documents(PodStatus)}
)
SLOW = settings(
    max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)


@SLOW
@given(PODS)
def test_a_formatted_pod_parses_back_equal(document: dict[str, Any]) -> None:
    read = parse_pod(document)
    written = pod_to_wire(read)
    assert parse_pod(written) == read
    assert pod_to_wire(parse_pod(written)) == written
    assert load_documents(canonical_json(read)) == (read,)
    assert load_documents("--- " + canonical_json(read)) == (read,)


@SLOW
@given(PODS)
def test_defaulting_is_idempotent(document: dict[str, Any]) -> None:
    once = with_defaults(parse_pod(document))
    assert with_defaults(once) == once
    assert parse_pod(pod_to_wire(once)) == once
    assert validate_update(once, once) == ()


@SLOW
@given(PODS)
def test_admission_returns_a_pod_or_a_reason(document: dict[str, Any]) -> None:
    try:
        taken = admit(document).pod
    except PodInvalid as error:
        assert error.problems and all(problem.message for problem in error.problems)
    else:
        assert validate_pod(taken) == () == check_supported(taken)
        assert admit(taken) == admit(pod_to_wire(taken))
        assert isinstance(taken, Pod)
