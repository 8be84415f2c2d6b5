"""Which tests run where: each on one runtime, on every one what depends on it, and what somebody asks for."""

from __future__ import annotations

import pytest

from tests.runtimes.selection import PREFERRED, RUNTIMES, runs

ALL = frozenset(RUNTIMES)
ON_CONTAINERD = frozenset({"containerd16", "containerd24"})


def chosen(
    *, among: frozenset[str] = ALL, everywhere: bool = False, here: tuple[str, ...] = PREFERRED, asked: str = ""
) -> set[str]:
    """Those runtimes that a test runs on."""
    return {name for name in among if runs(name, among=among, everywhere=everywhere, here=here, asked=asked)}


def test_a_test_runs_on_the_newest_containerd() -> None:
    assert chosen() == {"containerd24"}


def test_where_there_is_no_containerd_it_runs_on_the_embedded_runtime() -> None:
    assert chosen(here=("embedded",)) == {"embedded"}


def test_a_test_that_the_preferred_runtime_is_not_for_runs_on_another() -> None:
    assert chosen(among=frozenset({"embedded", "containerd16"})) == {"containerd16"}


def test_a_test_that_no_runtime_of_the_machine_is_for_is_there_to_be_skipped() -> None:
    assert chosen(among=ON_CONTAINERD, here=("embedded",)) == {"containerd24"}


def test_what_depends_on_the_runtime_runs_on_every_one_whatever_the_machine_has() -> None:
    assert chosen(everywhere=True) == chosen(everywhere=True, here=("embedded",)) == ALL


@pytest.mark.parametrize("everywhere", [False, True])
def test_who_asks_for_runtimes_gets_these_and_no_other(everywhere: bool) -> None:
    assert chosen(everywhere=everywhere, asked="crio") == {"crio"}
    assert chosen(everywhere=everywhere, asked="embedded, crio") == {"embedded", "crio"}
    assert chosen(everywhere=everywhere, asked="crio", among=ON_CONTAINERD) == set()


def test_who_asks_for_all_gets_every_test_on_every_runtime_that_it_is_for() -> None:
    assert chosen(asked="all") == ALL
    assert chosen(asked="all", among=ON_CONTAINERD) == ON_CONTAINERD
