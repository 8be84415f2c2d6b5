"""``python -m syncpod.cli.remote_command``: a command that a node runs for its fleet.

The same as ``syncpod``, except that it ends with the process that has started it, since nobody would read what it says,
and that it has an ordinary priority: the worker's own is higher, and is for the node's work.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
from collections.abc import Sequence
from typing import NoReturn

from syncpod.kernel import libc
from syncpod.kernel.process_priority import be_ordinary


def begin(arguments: Sequence[str]) -> NoReturn:
    """Run the command whose first word is the process id of who has started it."""
    be_ordinary()
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(arguments[0]):  # that died before this call
        raise SystemExit(1)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that it is told when the terminal has another size
    # Only now: to import the whole command takes a while, and must not outrank the node's work either.
    from syncpod.cli.main import main

    sys.argv = ["syncpod", *arguments[1:]]
    main()


if __name__ == "__main__":
    begin(sys.argv[1:])
