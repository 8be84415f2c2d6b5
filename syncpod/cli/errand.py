"""``python -m syncpod.cli.errand``: a command that a node's worker runs for its fleet.

The same as ``syncpod``, but that it ends with the worker which has started it: nobody would read what it says.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from syncpod.cli.main import main
from syncpod.kernel import libc


def begin(arguments: Sequence[str]) -> NoReturn:
    """Run the command whose first word is the process id of the worker."""
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(arguments[0]):  # the worker died before that call
        raise SystemExit(1)
    sys.argv = ["syncpod", *arguments[1:]]
    main()


if __name__ == "__main__":
    begin(sys.argv[1:])
