"""The node's worker gets a higher CPU priority than other processes, if that is permitted."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from syncpod.kernel.process_priority import NICE

PROGRAM = """
import os, sys, threading
from syncpod.kernel.process_priority import prefer_this_process
if os.geteuid() != int(sys.argv[1]):
    os.setuid(int(sys.argv[1]))
prefer_this_process()
threading.Thread(target=lambda: print(os.getpriority(os.PRIO_PROCESS, 0))).start()
"""


def nice_of(uid: int) -> int:
    """Return the nice value of a thread, in a process of this user that has requested a higher priority."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(uid)], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return int(run.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
def test_root_comes_before_others() -> None:
    assert nice_of(0) == min(NICE, os.getpriority(os.PRIO_PROCESS, 0))


def test_who_may_not_stays_where_it_was() -> None:
    assert nice_of(os.geteuid() or 65534) == os.getpriority(os.PRIO_PROCESS, 0)


REMOTE_COMMAND = """
import os, sys
os.setpriority(os.PRIO_PROCESS, 0, -10)
from syncpod.cli import remote_command
assert "syncpod.cli.main" not in sys.modules, "imported before the priority is given up"
import syncpod.cli.main
syncpod.cli.main.main = lambda: print(os.getpriority(os.PRIO_PROCESS, 0), sys.argv)
remote_command.begin([str(os.getppid()), "version"])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
def test_a_command_for_the_fleet_does_not_outrank_the_nodes_own_work() -> None:
    run = subprocess.run([sys.executable, "-c", REMOTE_COMMAND], capture_output=True, text=True, check=True)
    assert run.stdout == "0 ['syncpod', 'version']\n"


def test_a_process_that_was_put_behind_others_stays_there() -> None:
    program = (
        "import os; os.nice(7); from syncpod.kernel.process_priority import be_ordinary as be; be(); print(os.nice(0))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(run.stdout) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 7)
