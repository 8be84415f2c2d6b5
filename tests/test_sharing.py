"""Several processes divide the test files among themselves."""

from tests.sharing import share


def test_each_file_is_in_one_share() -> None:
    alone = share(["tests"], 0, 1)
    shares = [share(["tests"], number, 6) for number in range(6)]
    assert sorted(module for each in shares for module in each) == sorted(alone)
    assert {"tests.test_sharing", "tests.cli.test_up"} <= set(alone)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_only_what_is_asked_for_is_shared() -> None:
    assert share(["tests/cri/test_client.py::test_x", "tests/test_groups.py"], 0, 1) == [
        "tests.cri.test_client",
        "tests.test_groups",
    ]
