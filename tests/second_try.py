"""``python -m tests.second_try`` runs the tests that failed in the last run once more, alone, if they are few.

Six processes on two busy cores find races that a single test does not. Such a failure is a defect of the test or of the
product, but seldom of the change that is being checked. So `.ci/run` runs up to `MOST` failed tests a second time. A
test that then passes is printed in a prominent list: it must be listed in docs/testing.md, with its failure rate, until
its cause is fixed. A test that fails twice fails the run; a run that broke or was ended gets no second try and fails.

`make test` also loads this module as a plugin, which records how each run ended.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

MOST = 3
"""The most failed tests that get a second try; if there are more, the change is probably the cause."""

_NOTE = "syncpod/ended"
_CACHE = Path(".pytest_cache", "v")
_GROUP = re.compile(r"@[^]@]*$")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Record how the run ended, and which tests failed."""
    if session.config.cache is not None and not hasattr(session.config, "workerinput"):
        session.config.cache.set(_NOTE, int(exitstatus))


def may_try_again(ended: int | None, failed: Sequence[str]) -> bool:
    """Whether the run has few failures and is complete: it neither broke nor was ended from outside."""
    return ended == pytest.ExitCode.TESTS_FAILED and 0 < len(failed) <= MOST


def without_group(test: str) -> str:
    """Return a test's id as pytest accepts it, without the group that xdist appends."""
    return _GROUP.sub("", test)


def main() -> int:
    """Run the failed tests again; return 0 if all pass now, else 1."""
    ended, failed = _read(_NOTE), [without_group(test) for test in _read("cache/lastfailed") or ()]
    if not may_try_again(ended, failed):
        _say(f"no second try: the run ended with {ended}, and {len(failed)} tests failed, of which {MOST} may")
        return 1
    again = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *failed], check=False)
    if again.returncode != pytest.ExitCode.OK:
        _say("failed twice, beside other tests and alone")
        return 1
    _say("\nFLAKY: failed beside other tests, passed alone. Mend the cause; until then, list it in docs/testing.md:")
    _say("\n".join(f"  {test}" for test in failed))
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _read(name: str) -> Any:
    """Return the value in pytest's cache under this name; None if there is none."""
    try:
        return json.loads((_CACHE / name).read_text())
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
