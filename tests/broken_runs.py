"""Makes broken and interrupted test runs report the cause at their end. `make test` loads this plugin.

If pytest itself breaks, in one of xdist's workers or in its controller, it prints no summary, and the cause is far
above the end of the output, of which perhaps only the end is kept. Nor is there a summary if a run is ended because it
took too long. So this plugin prints one line at each failure, and at SIGTERM the failures again, the slowest tests, the
use of the processors and the running tests. It also replaces text that is not UTF-8 in the report of a test (an odd
path in a log line), since xdist cannot send it and the run would break. And it ends a process whose test hangs even
after pytest-timeout has failed it, in a fixture's end for example, which no timeout limits: the other processes go on.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.durations import Processors, slowest_of

LINES = 30
"""The number of lines that are repeated from the end of each error, which names the exception."""

SLOWEST = 20
"""The number of tests that an ended run lists as its slowest."""

NOTES = "under_way"
"""The key of xdist's input to a worker: the directory of notes."""

_errors: list[str] = []
_failed: list[str] = []


class AtOnce:
    """In xdist's controller: prints one line for each failure, and why a run took so long when it is ended."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._under_way: dict[str, None] = {}
        self._seconds: dict[str, float] = {}
        self._processors = Processors.now()
        self._notes = tempfile.TemporaryDirectory(prefix="syncpod-tests-under-way-")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give each of xdist's workers the directory in which it notes the test that it runs."""
        node.workerinput[NOTES] = self._notes.name

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a test is running."""
        self._under_way[nodeid] = None

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Record a test's end."""
        self._under_way.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a failure, and count a test's seconds."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {told(report)}", flush=True)

    def ended(self, number: int, _frame: object) -> None:
        """Print what is known of the run, and end as by the signal's default action."""
        lines = (
            "",
            "the run was ended; until then had failed:",
            *(f"  {line}" for line in _failed or ["nothing"]),
            "the slowest tests, in seconds:",
            *slowest_of(self._seconds, SLOWEST),
            f"the processors: {Processors.now().since(self._processors)}",
            "under way were:",
            *(f"  {test}" for test in self._under_way or ["nothing"]),
            "",
        )
        self._notes.cleanup()
        os.write(2, "\n".join(lines).encode(errors="backslashreplace"))  # no buffer, whose lock this code may interrupt
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


@pytest.hookimpl(trylast=True)  # after the terminal's own plugin
def pytest_configure(config: pytest.Config) -> None:
    """In the controller, which has a terminal reporter, print failures at once; in a worker, watch each test."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None and (notes := worker.get(NOTES)):
        config.pluginmanager.register(Watch(Path(notes), worker["workerid"]))
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        at_once = AtOnce(terminal)
        config.pluginmanager.register(at_once)
        signal.signal(signal.SIGTERM, at_once.ended)


class Watch:
    """In xdist's worker: ends the process, with the stacks of its threads, if a test takes twice its timeout.

    xdist gives the whole rest of a dead process's group to another one, also the test in which it died. So each process
    notes the test that it runs, and fails a test at once in which an earlier process died.
    """

    def __init__(self, notes: Path, process: str) -> None:
        """Note this process's tests in the file `process` of the directory `notes`, which all processes share."""
        self._note = notes / process
        self._stderr = os.dup(sys.stderr.fileno())  # this process's own: while a test runs, pytest replaces it
        self._died_in = {file.read_text() for file in notes.iterdir()}
        """Tests that end a process; and those that other processes run now, which this one does not get."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Watch a test, with its fixtures."""
        self._note.write_text(item.nodeid)
        self._watch(item)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)  # after pytest's own plugin, which ends the watch at a failure
    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        """Watch the rest of a test that has failed: its fixtures' ends."""
        if isinstance(node, pytest.Item):
            self._watch(node)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail a test in which a process has died."""
        if item.nodeid in self._died_in:
            pytest.fail("a process died in it", pytrace=False)

    def _watch(self, item: pytest.Item) -> None:
        marked = item.get_closest_marker("timeout")
        seconds = float(marked.args[0] if marked else item.config.getini("timeout") or 0)
        if seconds:
            faulthandler.dump_traceback_later(2 * seconds, exit=True, file=self._stderr)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Report a failure a second time if CPython breaks on the first try, which would break the run.

    Before 3.11.5, two threads that parse source at the same time make `ast.parse` raise SystemError ("AST constructor
    recursion depth mismatch"), and pytest parses the source of a failed test (github.com/python/cpython, gh-106905).
    """
    try:
        return (yield)
    except SystemError:
        return pytest.TestReport.from_item_and_call(item, call)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Replace every text of a report by one that xdist can send."""
    return sendable((yield))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record a failure, with its summary line."""
    if report.failed:
        _failed.append(told(report))


def pytest_internalerror(excrepr: object) -> None:
    """Record the error that broke the run."""
    _errors.append(str(excrepr))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Set a failing exit status for a broken run: xdist uses the received reports, which may all be good."""
    if _errors:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the cause at the very end of a broken run; xdist's workers leave that to the controller."""
    if _errors and not hasattr(config, "workerinput"):
        sys.stderr.write("\n".join(last_words(_errors, _failed)) + "\n")


def told(report: pytest.TestReport) -> str:
    """Return one line for a failed test: its id, its phase, and the first line of its error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash is not None else report.longreprtext
    return f"{report.nodeid} ({report.when}): {said.strip().partition(chr(10))[0]}"


def sendable(value: Any) -> Any:
    """A copy of a report's data that xdist can send: text that is not UTF-8 gets escapes (`\\udcff`).

    A value of a type that xdist cannot send, such as an enumeration's, is replaced by its printed form.
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {sendable(key): sendable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [sendable(item) for item in value]
    if isinstance(value, tuple):
        return tuple(sendable(item) for item in value)
    return value if value is None or type(value) in (bool, int, float) else sendable(str(value))


def last_words(errors: list[str], failed: list[str]) -> list[str]:
    """The text on why a run broke: the failed tests, then the last `LINES` lines of each error."""
    return [
        "the run broke; until then had failed:",
        *(f"  {line}" for line in failed or ["nothing"]),
        *(line for error in errors for line in ("it broke on:", *error.splitlines()[-LINES:])),
    ]
