"""A signed start begins one run; a copy of it, or of an earlier start, begins none.

Holds: Only users who can read the key in the state directory can command a signed node.
"""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest

from syncpod.node import begun_runs
from syncpod.node.begun_runs import COPY, FILE_NAME, BegunRuns

WEB = "pod/default/web"


def test_a_start_begins_one_run_and_no_earlier_start_begins_another(tmp_path: Path) -> None:
    begun = BegunRuns(tmp_path)
    assert begun.refusal(WEB, "first", 10) == ""
    assert begun.refusal(WEB, "first", 10) == "", "a replay"
    assert begun.refusal(WEB, "copy", 10) == COPY
    assert begun.refusal(WEB, "continued", 20) == ""
    assert begun.refusal(WEB, "copy", 10) == COPY
    assert begun.refusal(WEB, "older", 15) == COPY, "signed, but overtaken before it began anything"
    assert begun.refusal(WEB, "first", 10) == "", "a query of a run that has ended"
    assert begun.refusal("pod/default/other", "one", 5) == "", "each workflow for itself"


def test_the_next_worker_knows_it_and_the_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begun_runs, "RUNS_KEPT", 2)
    begun = BegunRuns(tmp_path)
    for number in range(1, 500):
        assert begun.refusal(WEB, f"run-{number}", number) == ""
    assert len((tmp_path / FILE_NAME).read_text().splitlines()) < 300
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    again = BegunRuns(tmp_path)
    assert len((tmp_path / FILE_NAME).read_text().splitlines()) == 3
    assert again.refusal(WEB, "run-499", 499) == ""
    assert again.refusal(WEB, "copy", 499) == COPY
    assert again.refusal(WEB, "run-1", 1) == COPY, "so many runs later nobody replays it"


def test_what_is_no_longer_kept_begins_nothing_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begun_runs, "WORKFLOWS_KEPT", 2)
    begun = BegunRuns(tmp_path)
    for number, name in enumerate(("a", "b", "c"), start=1):
        assert begun.refusal(name, "run", number) == ""
    assert begun.refusal("a", "copy", 1) == COPY
    assert BegunRuns(tmp_path).refusal("a", "copy", 1) == COPY
    assert begun.refusal("a", "new", 9) == ""


def test_a_line_that_a_crash_cut_off_spoils_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(f"7 run {WEB}\n12")
    assert BegunRuns(tmp_path).refusal(WEB, "copy", 7) == COPY


def test_a_full_disk_notes_nothing_by_halves(tmp_path: Path) -> None:
    begun = BegunRuns(tmp_path)
    assert begun.refusal(WEB, "first", 10) == ""
    size = (tmp_path / FILE_NAME).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, before[1]))
    try:
        with pytest.raises(OSError):
            begun.refusal(WEB, "second", 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert (tmp_path / FILE_NAME).stat().st_size == size
    assert begun.refusal(WEB, "second", 20) == "", "it had not begun"
    assert BegunRuns(tmp_path).refusal(WEB, "copy", 20) == COPY


@pytest.mark.parametrize("damage", [b"\xb7 run %s\n", "\u00b2 run %s\n".encode(), b"7 \xff %s\n", b"7\xff run %s\n"])
def test_a_damaged_line_counts_as_none_and_the_others_count(tmp_path: Path, damage: bytes) -> None:
    """Before, no worker of the node began any more."""
    (tmp_path / FILE_NAME).write_bytes(damage.replace(b"%s", b"pod/default/db") + f"9 run {WEB}\n".encode())
    begun = BegunRuns(tmp_path)
    assert begun.refusal(WEB, "copy", 9) == COPY
    assert begun.refusal(WEB, "run", 9) == ""
    assert begun.refusal("pod/default/db", "next", 10) == ""


@pytest.mark.parametrize("damaged", [f"95 run {WEB}\n", "95  \n"])
def test_a_number_that_no_start_can_have_keeps_nothing_from_beginning(tmp_path: Path, damaged: str) -> None:
    """One flipped bit can put a number centuries ahead: that pod, or any new one, never began any more."""
    (tmp_path / FILE_NAME).write_text(f"{damaged}9 run pod/default/db\n")
    begun = BegunRuns(tmp_path, newest=20)
    assert begun.refusal(WEB, "run", 15) == ""
    assert begun.refusal(WEB, "copy", 15) == COPY
    assert begun.refusal("pod/default/db", "copy", 9) == COPY
    assert begun.refusal("pod/default/new", "run", 21) == ""
