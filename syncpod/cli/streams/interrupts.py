"""Ctrl-C for commands that go on until they are told to end."""

from __future__ import annotations

import signal


def heed() -> None:
    """Have SIGINT interrupt this process also where it was started with it ignored, as shells do in the background.

    In a script, ``syncpod port-forward ... &`` ends by ``kill -INT $!`` then, as kubectl does, which asks for the
    signal by itself (kubectl's pkg/util/interrupt, v1.36). Commands that come to an end leave it ignored.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
