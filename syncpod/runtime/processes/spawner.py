"""The process from which supervisors are forked. It has imported everything, so a container costs only a fork.

The server starts it as `python -I -S spawner.py [OPEN_FILES]`, with a socket as standard input. Each request on that
socket is a container's directory and a socket for its supervisor. OPEN_FILES is the soft limit of open files for all
supervisors, if it differs from the server's. The spawner ends with the server; supervisors do not.
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
    """Fork a supervisor for every request, until the server has ended."""
    from syncpod.kernel.process_priority import SUPERVISOR, raise_oom_score_adj
    from syncpod.runtime.processes.packets import receive
    from syncpod.runtime.processes.supervise import supervise

    if sys.argv[1:]:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), hard))
    with contextlib.suppress(OSError):
        raise_oom_score_adj(SUPERVISOR)  # the server has a lower score
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps them.
    gc.collect()
    gc.disable()
    gc.freeze()  # Shared pages stay shared.
    while True:
        directory, descriptors = receive(requests)
        if not directory:
            os._exit(0)
        line = socket.socket(fileno=descriptors[0])
        with contextlib.suppress(OSError):  # Without a free process, the server's connection is closed.
            if os.fork() == 0:
                requests.close()
                supervise(Path(os.fsdecode(directory)), line)
        line.close()


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))
    main()
