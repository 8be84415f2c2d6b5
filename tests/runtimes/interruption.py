"""How a command that keeps a runtime waits for its end."""

from __future__ import annotations

import signal
import sys


def tell_until_interrupted(endpoint: str) -> None:
    """Print the endpoint, and return at the next SIGINT or SIGTERM.

    Both are blocked before the endpoint can be read. `signal.pause` would miss one that comes just before it waits: the
    handler has to wait for the interpreter then, and the interpreter for another signal.
    """
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    sys.stdout.write(f"{endpoint}\n")
    sys.stdout.flush()
    signal.sigwait(ending)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
