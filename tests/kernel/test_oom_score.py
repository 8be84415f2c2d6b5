"""The OOM killer ends node processes after pods, if this user may set that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from syncpod.kernel.mounting import effective_capabilities
from syncpod.kernel.process_priority import NODE, lower_oom_score_adj, read_oom_score_adj

_CAP_SYS_RESOURCE = 24


def may_lower() -> bool:
    return bool(effective_capabilities(read_pid()) >> _CAP_SYS_RESOURCE & 1)


def read_pid() -> int:
    return int(Path("/proc/self/stat").read_text().split()[0])


def result(program: str) -> str:
    """The output of a program in a process whose score begins at 300."""
    begin = "from syncpod.kernel import process_priority as o; o.raise_oom_score_adj(300); "
    done = subprocess.run([sys.executable, "-c", begin + program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_it_is_lowered_as_far_as_the_user_may() -> None:
    """A process may return to the score that it had before an increase."""
    lowest = read_oom_score_adj()
    assert result(f"print(o.lower_oom_score_adj({lowest}), o.read_oom_score_adj())") == f"True {lowest}"
    assert result("print(o.lower_oom_score_adj(500), o.read_oom_score_adj())") == "True 300", "never raised"


@pytest.mark.skipif(may_lower(), reason="with CAP_SYS_RESOURCE it succeeds")
def test_who_may_not_lower_it_goes_on_without() -> None:
    if read_oom_score_adj() > NODE:
        assert result(f"print(o.lower_oom_score_adj({NODE}), o.read_oom_score_adj())") == "False 300"
    assert not lower_oom_score_adj(NODE, 2**22 + 1), "no such process"


@pytest.mark.skipif(not may_lower(), reason="needs CAP_SYS_RESOURCE")
def test_what_a_spared_process_starts_for_others_is_ordinary() -> None:
    ordinary = "from syncpod.kernel.process_priority import be_ordinary; be_ordinary(); print(o.read_oom_score_adj())"
    assert result(f"print(o.lower_oom_score_adj({NODE})); {ordinary}") == "True\n0"
