"""Ctrl-C for commands that run until they are interrupted."""

from __future__ import annotations

import signal


def enable() -> None:
    """Let SIGINT interrupt this process even if it was started with SIGINT ignored, as shells do in the background.

    Then ``kill -INT $!`` ends ``syncpod port-forward ... &`` in a script. kubectl does the same by handling the signal
    (kubectl's pkg/util/interrupt, v1.36). Commands that end by themselves leave it ignored.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
