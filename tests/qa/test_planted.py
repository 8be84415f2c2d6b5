"""Each planted bug still fits its file, and each room has one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qa.planted.bugs import TABLE
from qa.planted.plant import ROOT, Plant
from qa.planted.trial import _failed


def rooms() -> Iterator[str]:
    yield from ("workflows/pod", "workflows/node", "workflows/fleet", "activities")
    for place in sorted((ROOT / "syncpod").iterdir()):
        if (place / "__init__.py").is_file() or (place.suffix == ".py" and place.stem != "__init__"):
            yield f"syncpod/{place.stem}"


def test_there_are_a_hundred_and_sixteen_bugs_with_unique_names() -> None:
    assert len(TABLE) == len({plant.name for plant in TABLE}) == 116


@pytest.mark.parametrize("plant", TABLE, ids=lambda plant: plant.name)
def test_each_bug_can_be_planted_and_leaves_valid_python(plant: Plant) -> None:
    assert plant.before != plant.after
    compile(plant.planted(ROOT), plant.file, "exec")


@pytest.mark.parametrize("plant", TABLE, ids=lambda plant: plant.name)
def test_each_bug_changes_a_file_of_its_room_and_names_tests(plant: Plant) -> None:
    assert (
        plant.file == plant.room
        or plant.file.removesuffix(".py") == plant.room
        or plant.file.startswith(f"{plant.room}/")
    )
    assert plant.tests and all((ROOT / path).exists() for path in plant.tests), plant.tests


def test_every_room_has_a_bug() -> None:
    assert set(rooms()) <= {plant.room for plant in TABLE}


def test_what_failed_is_named_so_that_it_can_be_run_again() -> None:
    lines = [
        "FAILED tests/a/test_x.py::test_one[p-1]@group - AssertionError: no [x]",
        "FAILED tests/a/test_x.py::test_two@a/test_x.py - E",
        "ERROR tests/a/test_x.py::test_three",
        "FAILED somewhere else",
        "1 failed",
    ]
    assert _failed(lines) == tuple(f"tests/a/test_x.py::test_{name}" for name in ("one", "two", "three"))
