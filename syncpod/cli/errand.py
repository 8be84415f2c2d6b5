"""``python -m syncpod.cli.errand``: a command that a node runs for its fleet.

The same as ``syncpod``, but that it ends with the process which has started it: nobody would read what it says.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
from collections.abc import Sequence
from typing import NoReturn

from syncpod.cli.main import main
from syncpod.kernel import libc


def begin(arguments: Sequence[str]) -> NoReturn:
    """Run the command whose first word is the process id of who has started it."""
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(arguments[0]):  # that died before this call
        raise SystemExit(1)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that it is told when the terminal has another size
    sys.argv = ["syncpod", *arguments[1:]]
    main()


if __name__ == "__main__":
    begin(sys.argv[1:])
