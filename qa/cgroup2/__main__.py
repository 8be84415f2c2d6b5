"""`python -m qa.cgroup2`: tests that touch cgroups, in a guest of this machine whose cgroups are of version 2."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from qa.cgroup2.kernel import kernel
from qa.cgroup2.machine import Size, run
from tests.runtimes.require import Missing

TESTS: Final = (
    "tests/runtime/test_cgroups_found.py",
    "tests/runtime/test_cgroups_limits.py",
    "tests/runtime/test_cgroups_delegated.py",
    "tests/runtime/test_server_resources.py",
    "tests/runtime/test_usage.py",
    "tests/kernel/test_cgroupfs.py",
    "tests/node/test_cgroups_made.py",
    "tests/node/test_cgroups.py",
    "tests/activities/test_cgroups_of_all_pods.py",
    "tests/activities/test_resizes.py",
    "tests/cri/test_client.py",
    "tests/agent/test_evictor.py",
    "tests/translation/test_container_config_on_a_runtime.py",
    "tests/e2e/test_limits.py",
    "tests/e2e/test_resizes.py",
    "tests/e2e/test_pressure.py",
)
"""The tests that create, limit, read or remove cgroups."""
_PYTEST: Final = ("-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider", "--timeout=3600")
_KEPT: Final = ("PATH", "HOME", "LANG")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of the command in the guest, 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m qa.cgroup2", description=__doc__)
    parser.add_argument("tests", nargs="*", default=TESTS, help="run these in the guest (default: all about cgroups)")
    parser.add_argument("--sh", metavar="SCRIPT", help="run this there instead, in the project's directory")
    parser.add_argument(
        "--memory", type=int, default=Size.memory_mib, metavar="MIB", help="the guest's (default: 6144)"
    )
    parser.add_argument("--out", type=Path, help="where logs and results stay (default: a new directory)")
    chosen = parser.parse_args(arguments)
    out = (chosen.out or Path(tempfile.mkdtemp(prefix="syncpod-cgroup2-"))).resolve()
    out.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"logs in {out}; load {os.getloadavg()[0]:.1f}\n")
    sys.stdout.flush()
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment |= {"SYNCPOD_PATIENCE": "20"}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("SYNCPOD_")}
    begun = time.monotonic()
    try:
        found = kernel()
        command = ["sh", "-c", chosen.sh] if chosen.sh else [sys.executable, *_PYTEST, *chosen.tests]
        code = run(found, command, environment, out, Size(memory_mib=chosen.memory))
    except (Missing, subprocess.CalledProcessError, RuntimeError) as error:
        sys.stderr.write(f"cgroup2: {error}\n")
        return 2
    sys.stdout.write(f"linux {found.version}: exit code {code} after {time.monotonic() - begun:.0f} s\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
