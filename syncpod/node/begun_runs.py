"""Refuses a second use of a signed start: a start may begin only one run, and no run if its workflow has a newer start.

A signature proves who wrote a start, but not when it is used. Anybody who can read a history could start the workflow
again with a copy of an earlier input, even after the pod has been deleted or changed. So the node records the start of
each run. A copy is refused before its run has read anything, and again at each replay of that run. A new start is
accepted if it was signed after the newest recorded start of its workflow.

The file ``begun`` in the state directory has one line for each run, oldest first. When it has twice its normal number
of lines, it is rewritten with the newest runs of each workflow.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from syncpod.kernel.atomic_file import replace_file

FILE_NAME: Final = "begun"
RUNS_KEPT: Final = 20
"""Maximum number of recorded runs of one workflow; some pods continue as new each hour. Older runs cannot be replayed
any more, for example for a query."""
WORKFLOWS_KEPT: Final = 10_000
"""Maximum number of recorded workflows. Starts of a dropped workflow are compared with the newest start of all dropped
workflows."""

_NUMBER: Final = re.compile(r"[0-9]{1,20}")

COPY: Final = "it is a copy of the start of another run"


class BegunRuns:
    """The starts that this node has seen. May be used from any thread."""

    def __init__(self, state_dir: Path, *, newest: int = sys.maxsize) -> None:
        """Read the records of earlier workers. Raises OSError.

        Damaged lines are ignored, and so are numbers above `newest`, which no start can have yet. Such a number would
        block all starts of its workflow, or of all dropped workflows, until the clock reaches it.
        """
        self._path = state_dir / FILE_NAME
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()
        """The number of each run's start, by workflow id and run id."""
        self._floor = 0
        """The highest start number of all dropped workflows."""
        self._lines = 0
        try:
            text = self._path.read_text(errors="replace")
        except FileNotFoundError:
            text = ""
        for line in text.splitlines():
            number, _, rest = line.partition(" ")
            run_id, _, workflow_id = rest.partition(" ")
            if not _NUMBER.fullmatch(number) or int(number) > newest:
                continue
            if not run_id:
                self._floor = max(self._floor, int(number))
            elif workflow_id:
                self._add(workflow_id, run_id, int(number))
        if text:
            self._rewrite()

    def refusal(self, workflow_id: str, run_id: str, number: int) -> str:
        """Return why a run must not begin with the start of this number.

        If it may begin, record the start and return "". A later call for this run returns the same result, as long as
        the run can be replayed. Raises OSError.
        """
        with self._lock:
            runs = self._runs.get(workflow_id, OrderedDict())
            if runs.get(run_id) == number:
                return ""
            if number <= max(runs.values(), default=self._floor):
                return COPY
            self._append(f"{number} {run_id} {workflow_id}\n")
            self._add(workflow_id, run_id, number)
            return ""

    def _add(self, workflow_id: str, run_id: str, number: int) -> None:
        runs = self._runs.setdefault(workflow_id, OrderedDict())
        runs[run_id] = number
        while len(runs) > RUNS_KEPT:
            runs.popitem(last=False)
        self._runs.move_to_end(workflow_id)
        while len(self._runs) > WORKFLOWS_KEPT:
            _, dropped = self._runs.popitem(last=False)
            self._floor = max(self._floor, *dropped.values())

    def _append(self, line: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.open(self._path, flags, 0o600)
        try:
            size, data = os.fstat(opened).st_size, line.encode()
            if os.write(opened, data) < len(data):  # the disk is full, and the next record would follow a half one
                os.ftruncate(opened, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        finally:
            os.close(opened)
        self._lines += 1
        if self._lines > 2 * RUNS_KEPT * max(len(self._runs), 50):
            self._rewrite()

    def _rewrite(self) -> None:
        lines = [f"{self._floor}  \n", *_lines(self._runs.items())]
        replace_file(self._path, "".join(lines), durable=True)
        self._lines = len(lines)


def _lines(runs_of: Iterable[tuple[str, OrderedDict[str, int]]]) -> list[str]:
    return [f"{number} {run_id} {workflow_id}\n" for workflow_id, runs in runs_of for run_id, number in runs.items()]
