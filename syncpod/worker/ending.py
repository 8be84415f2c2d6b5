"""The end of a worker's process."""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process with an exit code, after its last output.

    A process that has run a Temporal worker aborts now and then while the interpreter shuts down.
    """
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
