"""Parts of a machine that tests need: a test is skipped if one is missing, and fails if it was promised.

`SYNCPOD_REQUIRE` lists the promised parts of a machine (`containerd,containerd24,tctl,chromium`). If one of these is
missing, machine or harness is broken, and a skipped test would hide that.
"""

import os
from pathlib import Path
from typing import NoReturn

import pytest


class Missing(Exception):
    """A part of the machine is missing. The message says which one and why."""


def promised() -> frozenset[str]:
    """The parts listed in `SYNCPOD_REQUIRE`."""
    return frozenset(name.strip() for name in os.environ.get("SYNCPOD_REQUIRE", "").split(",") if name.strip())


def do_without(part: str, reason: str) -> NoReturn:
    """Skip the test that needs `part`, or fail it if the part was promised."""
    if part in promised():
        pytest.fail(f"{part} is required here (SYNCPOD_REQUIRE), but {reason}", pytrace=False)
    pytest.skip(f"{part}: {reason}")


def cache_directory() -> Path:
    """The directory of binaries that are built for tests and kept between runs: `$XDG_CACHE_HOME/syncpod`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "syncpod"
