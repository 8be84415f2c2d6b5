"""A missing part of the machine skips a test, unless the machine promised to have it."""

import pytest

from tests.runtimes import containerd
from tests.runtimes.require import Missing, do_without


def test_a_part_that_nobody_promised_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCPOD_REQUIRE", "containerd")
    with pytest.raises(pytest.skip.Exception, match="containerd24: it is not installed"):
        do_without("containerd24", "it is not installed")


def test_a_part_that_was_promised_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCPOD_REQUIRE", "containerd, containerd24")
    with pytest.raises(pytest.fail.Exception, match="containerd24 is required here"):
        do_without("containerd24", "it is not installed")


def test_a_containerd_that_is_not_there_is_missed_by_the_path_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SYNCPOD_CONTAINERD24", "/nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(Missing, match=r"not found in /nowhere|is not installed|no CNI plugins"):
        containerd.installed("2.4")
