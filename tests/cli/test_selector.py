"""Label selectors in the syntax of `-l`."""

from __future__ import annotations

import pytest

from syncpod.api.label_selector import parse_selector

WEB = {"app": "web", "tier": "front", "example.com/rev": "12"}


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("zone!=a", True),
        ("zone=", False),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("zone notin (a)", True),
        ("app", True),
        ("zone", False),
        ("!zone", True),
        ("!app", False),
        ("example.com/rev>11", True),
        ("example.com/rev < 12", False),
        ("tier>1", False),
        ("zone<5", False),
        ("app in (web,db),tier=front,!zone", True),
        ("app in (web,db),tier=back", False),
        (" app = web , tier ", True),
    ],
)
def test_a_selector_selects_by_all_its_conditions(selector: str, selects: bool) -> None:
    assert parse_selector(selector).matches(WEB) is selects


@pytest.mark.parametrize("selector", ["a=b=c", "app in web", "app in (a", ",", "a,,b", "a b", "=web", "rev>x", "a!b"])
def test_an_invalid_selector_is_refused_with_the_part_that_is_wrong(selector: str) -> None:
    with pytest.raises(ValueError, match="is not a condition on a label"):
        parse_selector(selector)
