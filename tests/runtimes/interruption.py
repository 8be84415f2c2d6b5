"""Waits for the end of a command that keeps a runtime."""

from __future__ import annotations

import os
import signal
import sys


def tell_until_interrupted(endpoint: str) -> None:
    """Print the endpoint, and return at the next SIGINT or SIGTERM.

    A signal may come as soon as the endpoint can be read, and the kernel may hand it to any thread, such as gRPC's.
    `signal.pause` misses one that comes just before it waits, and `signal.sigwait` one that another thread took. So the
    thread that takes the signal writes a byte, which this function reads.
    """
    ended, wake = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(wake, False)
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    others = signal.set_wakeup_fd(wake)
    try:
        sys.stdout.write(f"{endpoint}\n")
        sys.stdout.flush()
        os.read(ended, 1)
    finally:
        signal.set_wakeup_fd(others)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(ended)
        os.close(wake)
