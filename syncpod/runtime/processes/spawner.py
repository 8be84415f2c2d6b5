"""The process that supervisors are forked from: it has everything imported, so a container costs a fork.

Started by the server as `python -I -S spawner.py [OPEN_FILES]`, with a socket as its standard input, on which come a
container's directory and a socket for its supervisor. OPEN_FILES is the soft limit of open files for all of them, where
that is not the server's own. It ends with the server; the supervisors do not.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Fork a supervisor for every request, until the server is gone."""
    from syncpod.runtime.processes.packets import receive
    from syncpod.runtime.processes.supervise import supervise

    if sys.argv[1:]:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), hard))
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps them.
    gc.collect()
    gc.disable()
    gc.freeze()  # What is shared stays shared.
    while True:
        directory, descriptors = receive(requests)
        if not directory:
            os._exit(0)
        line = socket.socket(fileno=descriptors[0])
        with contextlib.suppress(OSError):  # No process to be had: the server sees its line closed.
            if os.fork() == 0:
                requests.close()
                supervise(Path(os.fsdecode(directory)), line)
        line.close()


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))
    main()
