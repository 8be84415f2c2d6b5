"""``python -m syncpod.cli.remote_command``: a command that a node runs for its fleet.

It does the same as ``syncpod``, with two differences. The command ends when the process that started it ends, since
nobody would read its output. It runs at ordinary priority: the worker's own priority is higher, and is for the node's
work.
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
    """Run a command: `arguments` are the process id of the parent that starts it, then the command's words."""
    be_ordinary()
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(arguments[0]):  # the parent ended before prctl was called
        raise SystemExit(1)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # for SIGWINCH when the terminal's size changes
    # Imported only now: importing takes a while, and must run at ordinary priority too.
    from syncpod.cli.main import main

    sys.argv = ["syncpod", *arguments[1:]]
    main()


if __name__ == "__main__":
    begin(sys.argv[1:])
