"""A port that one process of tests has is given to no other while it lives, and not twice to the same."""

import itertools
import secrets
import subprocess
import sys

import pytest

from tests.runtimes import ports

HOLDER = """
import sys
from tests.runtimes import ports
print(ports._locked(int(sys.argv[1])), *ports.free_ports(3), flush=True)
sys.stdin.readline()
"""


def test_a_port_that_a_live_process_has_is_given_to_no_other() -> None:
    command = [sys.executable, "-c", HOLDER, str(ports.free_port())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        locked, *theirs = other.stdout.readline().split()
        assert locked == "False"
        assert len(set(theirs)) == 3
        assert not any(ports._locked(int(each)) for each in theirs)
        other.stdin.close()
        other.wait(timeout=60)
    assert all(ports._locked(int(each)) for each in theirs), "the end of a process frees its ports"


def test_a_process_gets_no_port_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = itertools.chain(*itertools.repeat([5_000, 5_000, 5_000, *range(5_001, 5_040)], 2), range(6_000, 9_000))
    monkeypatch.setattr(secrets, "randbelow", lambda _below: next(draws))
    given = [ports.free_port() for _ in range(50)]
    assert len(set(given)) == 50
