"""Where processor time runs short, the node's worker comes before others, if it may."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from syncpod.kernel.priority import NICE

PROGRAM = """
import os, sys, threading
from syncpod.kernel.priority import prefer_this_process
if os.geteuid() != int(sys.argv[1]):
    os.setuid(int(sys.argv[1]))
prefer_this_process()
threading.Thread(target=lambda: print(os.getpriority(os.PRIO_PROCESS, 0))).start()
"""


def nice_of(uid: int) -> int:
    """Return the nice value of a thread of a process of this user that asked to be preferred."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(uid)], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return int(run.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
def test_root_comes_before_others() -> None:
    assert nice_of(0) == min(NICE, os.getpriority(os.PRIO_PROCESS, 0))


def test_who_may_not_stays_where_it_was() -> None:
    assert nice_of(os.geteuid() or 65534) == os.getpriority(os.PRIO_PROCESS, 0)
