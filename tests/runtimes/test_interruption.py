"""A command that keeps a runtime ends at a signal, whichever thread receives it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.fork_server import ROOT

KEEPING = """
import os, signal, sys, threading
from tests.runtimes.interruption import tell_until_interrupted
class Telling:  # the signal comes to another thread as soon as the endpoint is read
    def write(self, text): print(text, end="", file=sys.stderr)
    def flush(self): threading.Timer({seconds}, signal.pthread_kill, (other.ident, {number})).start()
signal.signal(signal.SIGTERM, signal.default_int_handler)
other = threading.Thread(target=threading.Event().wait, daemon=True)
other.start()
sys.stdout = Telling()
tell_until_interrupted("unix:///a.sock")
os._exit(0)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0, 0.5])
def test_a_signal_that_another_thread_gets_ends_the_wait(number: signal.Signals, seconds: float) -> None:
    program = KEEPING.format(number=int(number), seconds=seconds)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "unix:///a.sock\n")
