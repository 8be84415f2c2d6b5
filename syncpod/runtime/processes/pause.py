"""A container of the image `pause`, which this runtime has built in: it waits for the signal that ends it.

It behaves like Kubernetes' own (build/pause/linux/pause.c), and needs neither a registry nor a program of the host.
"""

from __future__ import annotations

import os
import signal
from typing import Final, NoReturn

from syncpod.kernel import libc
from syncpod.runtime.port import ProcessSpec

PAUSE: Final = ("/pause",)
"""Its command line, which is the image's entry point."""


def is_pause(spec: ProcessSpec) -> bool:
    """Say whether the process is to be the built-in one; in its root a program of that name comes first."""
    return spec.arguments == PAUSE and not spec.root and not os.path.lexists(PAUSE[0])


def pause() -> NoReturn:
    """Act as the container's main process, in place of a program: close the descriptors that exec would, and wait."""
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    libc.name_process("pause")
    libc.title_process(PAUSE[0])
    number = signal.sigwait(ending)
    said = f"Shutting down, got signal: {signal.strsignal(number)}\n"
    os.write(2, said.encode())
    os._exit(0)
