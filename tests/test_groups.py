"""Which tests share a process: the longest groups first, then those that wait for a runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import groups
from tests.runtimes import selection


def test_longest_groups_come_first_then_those_on_a_runtime_then_the_rest_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "LONGEST", ("simulator/test_seeds.py", "e2e/test_long.py"))
    found = ["pod/test_a.py", "e2e/test_a.py containerd23", "e2e/test_long.py containerd23", "crio", "pod/test_b.py"]
    places = groups.places_of([*found, "simulator/test_seeds.py"])
    assert sorted(places, key=lambda group: places[group]) == [
        "simulator/test_seeds.py",
        "e2e/test_long.py containerd23",
        "e2e/test_a.py containerd23",
        "crio",
        "pod/test_a.py",
        "pod/test_b.py",
    ]


def test_a_test_is_in_the_group_of_its_file(request: pytest.FixtureRequest) -> None:
    assert groups.group_of(request.node) == "test_groups.py"


@pytest.mark.xdist_group("one of its own")
def test_a_test_may_name_a_group_of_its_own(request: pytest.FixtureRequest) -> None:
    assert groups.group_of(request.node) == "one of its own"


def test_each_of_the_longest_groups_exists() -> None:
    tests = Path(groups.__file__).parent
    absent = [group for group in groups.LONGEST if group not in selection.RUNTIMES and not (tests / group).is_file()]
    assert not absent
