"""A missing part of the machine skips a test, or fails it if the machine promised the part."""

import pytest

from tests.runtimes import containerd
from tests.runtimes.require import Missing, do_without


def test_a_missing_part_that_was_not_promised_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCPOD_REQUIRE", "containerd")
    with pytest.raises(pytest.skip.Exception, match="containerd24: it is not installed"):
        do_without("containerd24", "it is not installed")


def test_a_missing_part_that_was_promised_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCPOD_REQUIRE", "containerd, containerd24")
    with pytest.raises(pytest.fail.Exception, match="containerd24 is required here"):
        do_without("containerd24", "it is not installed")


def test_a_missing_containerd_is_reported_with_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SYNCPOD_CONTAINERD24", "/nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(Missing, match=r"not found in /nowhere|is not installed|no CNI plugins"):
        containerd.installed("2.4")
