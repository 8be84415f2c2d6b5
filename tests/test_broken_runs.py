"""A broken run reports the cause at its end, and undecodable text in one report does not break the run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.broken_runs import LINES, last_words, sendable

ODD = """
import logging
def test_odd():
    logging.getLogger().warning("odd \\udcff")
    assert 0, "the test itself"
"""

TWO = """
import pytest
pytestmark = pytest.mark.xdist_group("one")
def test_first():
    assert 0, "broken before"
def test_second():
    pass
"""

HANGING = """
import time, pytest
pytestmark = pytest.mark.xdist_group("one")
@pytest.mark.timeout(1)
def test_hangs():
    time.sleep(600)
def test_goes_on():
    pass
"""

HANGING_ON = """
import time, pytest
@pytest.fixture
def hangs():
    yield
    time.sleep(600)
@pytest.mark.timeout(1)
@pytest.mark.xdist_group("one")
def test_hangs(hangs):
    time.sleep(600)
@pytest.mark.xdist_group("two")
def test_goes_on():
    pass
"""

UNREADABLE = """
import ast
def test_first(monkeypatch):
    real = ast.parse
    def parse(*arguments, **more):
        ast.parse = real
        raise SystemError("AST constructor recursion depth mismatch")
    ast.parse = parse
    assert 0, "the test itself"
"""

CUT_OFF = """
import os, signal
def pytest_runtest_logreport(report):
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
"""

ENDED = """
import os, signal
def pytest_runtest_logstart(nodeid):
    if "second" in nodeid and "PYTEST_XDIST_WORKER" not in os.environ:
        os.kill(os.getpid(), signal.SIGTERM)
"""

BREAKING = """
import os
def pytest_runtest_logstart(nodeid):
    if "second" in nodeid and "PYTEST_XDIST_WORKER" in os.environ:
        raise RuntimeError("the cause")
"""


def run(directory: Path, tests: str, *, hooks: str = "") -> subprocess.CompletedProcess[str]:
    """Run tests as `make test` does, in two processes."""
    (directory / "test_it.py").write_text(tests)
    (directory / "conftest.py").write_text(hooks)
    command = [sys.executable, "-m", "pytest", "-p", "tests.broken_runs", "-p", "no:cacheprovider"]
    project = Path(__file__).parent.parent
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [*command, "--numprocesses=2", "--dist=loadgroup", f"--rootdir={directory}", str(directory)],
        cwd=directory,
        env={**environ, "PYTHONPATH": str(project), "PYTEST_ADDOPTS": "", "TMPDIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_text_that_is_not_utf_8_fails_only_its_own_test(tmp_path: Path) -> None:
    done = run(tmp_path, ODD)
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout and "the test itself" in done.stdout and "INTERNALERROR" not in done.stdout


def test_a_broken_run_ends_with_the_cause_and_the_failed_tests(tmp_path: Path) -> None:
    done = run(tmp_path, TWO, hooks=BREAKING)
    assert done.returncode == 3
    assert "test_first@one (call): AssertionError: broken before" in done.stderr
    assert "RuntimeError: the cause" in done.stderr.partition("it broke on:")[2]


def test_a_failure_is_told_before_a_run_is_cut_off(tmp_path: Path) -> None:
    done = run(tmp_path, TWO, hooks=CUT_OFF)
    assert done.returncode == -signal.SIGKILL
    assert "FAILED test_it.py::test_first@one (call): AssertionError: broken before" in done.stdout


def test_a_run_that_is_ended_names_its_failed_its_slowest_and_its_running_tests(tmp_path: Path) -> None:
    done = run(tmp_path, TWO, hooks=ENDED)
    assert done.returncode == -signal.SIGTERM
    told = done.stderr.partition("the run was ended; until then had failed:\n")[2]  # its processes may print more
    failed, _, told = told.partition("the slowest tests, in seconds:\n")
    slowest, _, under_way = told.partition("under way were:\n")
    assert failed == "  test_it.py::test_first@one (call): AssertionError: broken before\n"
    assert "test_it.py::test_first@one" in slowest and "% stolen" in slowest
    assert under_way.startswith("  test_it.py::test_second@one\n")


def test_a_test_that_hangs_fails_and_the_run_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, HANGING)
    assert done.returncode == 1
    assert "test_hangs@one (call): Failed: Timeout" in done.stdout and "1 failed, 1 passed" in done.stdout


def test_a_test_that_hangs_on_after_its_timeout_ends_its_process_and_the_run_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, HANGING_ON)
    assert done.returncode == 1
    assert "crashed while running" in done.stdout and "2 failed, 1 passed, 1 error" in done.stdout
    assert "a process died in it" in done.stdout, "it is not tried again"
    assert "Timeout (0:00:02)!" in done.stderr and "in hangs" in done.stderr, "where it hung"


def test_a_failure_whose_source_cannot_be_parsed_at_once_is_reported(tmp_path: Path) -> None:
    done = run(tmp_path, UNREADABLE)
    assert done.returncode == 1, done.stdout
    assert "the test itself" in done.stdout and "1 failed" in done.stdout and "INTERNALERROR" not in done.stdout


def test_undecodable_text_is_escaped_at_any_depth() -> None:
    assert sendable({"a": [("\udcff", 1)], "\udcfe": None}) == {"a": [("\\udcff", 1)], "\\udcfe": None}


def test_a_value_of_an_unknown_type_is_sent_as_text() -> None:
    sent = sendable({"signal": signal.SIGINT, "path": Path("/a")})
    assert sent == {"signal": str(signal.SIGINT), "path": "/a"} and type(sent["signal"]) is str


def test_the_last_lines_of_an_error_are_shown() -> None:
    error = "\n".join(f"line {number}" for number in range(LINES + 5))
    lines = last_words([error], [])
    assert lines[1] == "  nothing" and lines[-1] == f"line {LINES + 4}" and "line 4" not in lines
