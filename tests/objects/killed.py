"""A program that changes a store and is killed before a line of that, each time a later line.

`python -m tests.objects.killed DIRECTORY put|delete` kills the change at one line after another, until it completes. It
prints a JSON list with an entry for each death: [the value found or null, whether a put works again].
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from syncpod.objects import store as module
from syncpod.objects import values
from tests.objects.objects import ref, secret, store_in


def main(directory: Path, what: str) -> None:
    found = []
    line, came_through = 0, False
    while not came_through:
        line += 1
        shutil.rmtree(directory, ignore_errors=True)
        store_in(directory).put(secret(stringData={"k": "old"}))
        child = os.fork()
        if child == 0:
            die_before(line)
            changed(directory, what)
            os._exit(0)
        came_through = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        there = store_in(directory).get(ref("Secret"))
        value = None if there is None else values(there)["k"].decode()
        again = store_in(directory).put(secret(stringData={"k": "later"}))
        found.append([value, again])
    sys.stdout.write(json.dumps(found))


def changed(directory: Path, what: str) -> None:
    if what == "put":
        store_in(directory).put(secret(stringData={"k": "new"}))
    else:
        store_in(directory).delete(ref("Secret"))


def die_before(line: int) -> None:
    """Kill this process before this line (counted in execution) of the store's module."""
    seen = 0

    def traced(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return traced

    sys.settrace(traced)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
