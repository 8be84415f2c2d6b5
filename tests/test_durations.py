"""The sums in the table at the end of a run are right."""

from tests.durations import Processors, Timed, by_folder, slowest

PHASES = [
    Timed("tests/e2e/test_a.py::test_one[x/y]", "gw0", 3.0, 0.5),
    Timed("tests/e2e/test_a.py::test_one[x/y]", "gw0", 1.0),
    Timed("tests/e2e/test_b.py::test_two", "gw1", 1.0),
    Timed("tests/cli/test_c.py::test_three", "gw1", 5.0, 4.5),
]


def test_a_folder_counts_its_tests_and_sums_the_seconds_of_all_their_phases() -> None:
    lines = [line.split() for line in by_folder(PHASES)]
    assert lines == [
        ["folder", "tests", "seconds", "share", "CPU"],
        ["tests/e2e", "2", "5.0", "50.0%", "0.5"],
        ["tests/cli", "1", "5.0", "50.0%", "4.5"],
        ["all", "3", "10.0", "5.0"],
    ]


def test_the_slowest_tests_come_first_with_setup_and_teardown() -> None:
    assert [line.split()[0] for line in slowest(PHASES, 2)] == ["5.0", "4.0"]


def test_a_machine_that_gives_processors_to_others_is_told_from_a_run_that_waits() -> None:
    before = Processors(10.0, (100, 0, 100, 100, 0, 0, 0, 0))
    after = Processors(40.0, (130, 0, 110, 130, 10, 0, 0, 20))
    assert after.since(before) == "40% busy, 20% stolen, 40% idle in 30 s"
