"""Revisions of a workload: increasing numbers, a bounded list, and the result of each."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.fleet.revisions import BYTES, NoRevision, Revision, applied, became_good, chosen, given_up, shortened

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def of(*templates: str) -> tuple[Revision, ...]:
    history: tuple[Revision, ...] = ()
    for count, template in enumerate(templates):
        history = applied(history, template, f"because {count}", NOW + timedelta(minutes=count))
    return history


@given(st.lists(st.sampled_from("abcd"), min_size=1))
def test_each_template_is_there_once_the_newest_last_and_numbers_only_grow(templates: list[str]) -> None:
    history = of(*templates)
    assert history[-1].template == templates[-1]
    assert sorted(each.template for each in history) == sorted(set(templates))
    numbers = [each.number for each in history]
    assert numbers == sorted(set(numbers))
    changes = sum(one != other for one, other in itertools.pairwise(templates))
    assert numbers[-1] == changes + 1


def test_a_template_that_is_asked_for_again_is_the_newest_and_has_its_latest_cause() -> None:
    history = of("a", "b", "a", "a")
    assert [(each.number, each.template, each.cause) for each in history] == [
        (2, "b", "because 1"),
        (3, "a", "because 3"),
    ]


def test_what_became_of_a_revision_is_kept_with_it() -> None:
    history = given_up(became_good(of("a", "b"), "a", NOW), "b", "it fails")
    assert [(each.good_since, each.given_up) for each in history] == [(NOW, ""), (None, "it fails")]
    of_pod = given_up(history, "b", "web-2 fails", "web-2", "n1")
    assert (of_pod[1].failed_pod, of_pod[1].failed_on, of_pod[0].failed_pod) == ("web-2", "n1", "")
    again = became_good(of_pod, "b", NOW)
    assert (
        again[1].given_up == again[1].failed_pod == again[1].failed_on == ""
        and became_good(again, "a", NOW + timedelta(1))[0].good_since == NOW
    )


def test_the_one_before_the_newest_or_the_one_of_a_number_is_chosen() -> None:
    history = of("a", "b", "c")
    assert (chosen(history, 0).template, chosen(history, 1).template) == ("b", "a")
    with pytest.raises(NoRevision, match="revision 7 not found; known: 1, 2, 3"):
        chosen(history, 7)
    with pytest.raises(NoRevision, match="there is no earlier revision; known: 1"):
        chosen(of("a"), 0)


def test_one_that_was_rolled_back_is_only_chosen_by_its_number() -> None:
    history = given_up(of("a", "b", "c"), "b", "it fails")
    assert (chosen(history, 0).template, chosen(history, 2).template) == ("a", "b")
    with pytest.raises(NoRevision, match="there is no earlier revision that was not rolled back; known: 2, 3"):
        chosen(history[1:], 0)


def test_the_oldest_are_forgotten_but_for_those_that_are_needed() -> None:
    history = of(*"abcdef")
    small = dict.fromkeys("abcdef", 1)
    assert "".join(each.template for each in shortened(history, 2, small, ())) == "def"
    assert "".join(each.template for each in shortened(history, 0, small, {"b"})) == "bf"
    large = dict.fromkeys("abcdef", BYTES // 2)
    assert "".join(each.template for each in shortened(history, 10, large, {"a"})) == "adef"
