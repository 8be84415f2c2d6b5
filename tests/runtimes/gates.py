"""Gates between a runtime and CNI or runc: a test closes a gate to make that program slow, or lets it fail.

containerd and CRI-O use wrappers instead of the `bridge` plugin and `runc`. A wrapper looks for a file with the name of
the operation (`cni-add`, `runc-create`). If there is none, it executes the real program at once; while there is one, it
waits, or fails if the file contains `refuse`.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tests.patience import PATIENCE

STARTED = "runc-started"
"""The point after `runc start` has done its work: the process runs, and the runtime is not notified yet."""

POINTS = ("cni-add", "cni-del", "runc-create", "runc-start", STARTED, "runc-kill", "runc-delete", "runc-exec")
"""The points: calls of the CNI plugin or of runc. A call that is done can be held, but not refused."""

_WRAPPER = """#!{busybox} sh
{point}
gate={gates}/$point
if [ -e "$gate" ]; then
  : > "$gate.$$.reached"
  while [ -e "$gate" ] && [ ! -e "$gate.$$.passes" ]; do
    if {busybox} grep -q refuse "$gate" 2>/dev/null; then
      {refuse}
    fi
    {busybox} sleep 0.01
  done
fi
{afterwards}
exec {program} "$@"
"""
_AFTER_START = """gate={gates}/{started}
if [ "$point" = runc-start ] && [ -e "$gate" ]; then
  {program} "$@"
  code=$?
  : > "$gate.$$.reached"
  while [ -e "$gate" ] && [ ! -e "$gate.$$.passes" ]; do {busybox} sleep 0.01; done
  exit $code
fi"""
_CNI_POINT = 'point=cni-$(echo "$CNI_COMMAND" | tr A-Z a-z)'
_CNI_REFUSE = """echo '{"cniVersion":"0.4.0","code":100,"msg":"refused by the gate"}'; exit 1"""
_RUNC_POINT = """point=runc
for argument in "$@"; do
  [ "$previous" = --log ] && log=$argument
  previous=$argument
  case "$argument" in create|start|kill|delete|exec) point=runc-$argument; break ;; esac
done"""
# The shim reads the error from the last line of runc's log; CRI-O, which requests no log, from runc's output.
_RUNC_REFUSE = """echo '{"level":"error","msg":"refused by the gate"}' >> "${log:-/dev/stderr}"; exit 1"""


class Gate:
    """A point that is held or refused until the end of the test's `with` block."""

    def __init__(self, directory: Path, point: str) -> None:
        if point not in POINTS:
            raise ValueError(f"no gate {point!r}: there are {', '.join(POINTS)}")
        self.point = point
        self._directory = directory

    @property
    def arrivals(self) -> int:
        """The number of calls that have arrived at this point since it was shut."""
        return len(list(self._directory.glob(f"{self.point}.*.reached")))

    async def reached(self, calls: int = 1, *, patience: float = PATIENCE) -> None:
        """Wait until `calls` calls have arrived at this point; raises TimeoutError after `patience` seconds."""
        deadline = time.monotonic() + patience
        while self.arrivals < calls:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.point}: {self.arrivals} of {calls} calls came in {patience} s")
            await asyncio.sleep(0.01)

    def let_through(self) -> None:
        """Let waiting calls through; the gate stays shut for later ones."""
        for reached in self._directory.glob(f"{self.point}.*.reached"):
            reached.with_suffix(".passes").touch()

    def open(self) -> None:
        """Let all calls through again, including waiting ones. Does nothing to an open gate."""
        (self._directory / self.point).unlink(missing_ok=True)


def install(gates: Path, *, programs: Path, bridge: Path, runc: Path, busybox: Path) -> None:
    """Write the wrappers of `bridge` and `runc` to the directory `programs`, and make the directory `gates`."""
    gates.mkdir(exist_ok=True)
    after_start = _AFTER_START.format(gates=gates, started=STARTED, program=runc, busybox=busybox)
    for name, program, point, refuse, afterwards in (
        ("bridge", bridge, _CNI_POINT, _CNI_REFUSE, ""),
        ("runc", runc, _RUNC_POINT, _RUNC_REFUSE, after_start),
    ):
        text = _WRAPPER.format(
            point=point, refuse=refuse, afterwards=afterwards, program=program, gates=gates, busybox=busybox
        )
        wrapper = programs / name
        wrapper.unlink(missing_ok=True)
        wrapper.write_text(text)
        wrapper.chmod(0o755)


class Gates:
    """The gates of one runtime, kept as files in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def hold(self, point: str) -> contextlib.AbstractContextManager[Gate]:
        """Make calls at `point` wait until the block ends or its gate is opened."""
        return self._shut(point, "hold")

    def refuse(self, point: str) -> contextlib.AbstractContextManager[Gate]:
        """Make calls at `point` fail until the block ends or its gate is opened."""
        return self._shut(point, "refuse")

    @contextlib.contextmanager
    def _shut(self, point: str, manner: str) -> Iterator[Gate]:
        gate = Gate(self._directory, point)
        for old in self._directory.glob(f"{point}.*.*"):
            old.unlink()
        temporary = self._directory / f".{point}"
        temporary.write_text(manner)
        temporary.replace(self._directory / point)
        try:
            yield gate
        finally:
            gate.open()
