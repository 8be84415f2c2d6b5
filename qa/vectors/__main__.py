"""Records a kubelet's decisions: new files beside the tests, or a comparison with ours for other seeds.

python -m qa.vectors 1.37.2               record cases of seed 0 into tests/lifecycle/vectors/1.37.2
python -m qa.vectors 1.37.2 --compare 50  ask the kubelet and us about cases of 50 other seeds; nothing is written
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from qa.vectors.cases import cases
from qa.vectors.recorder import VERSIONS, Kind, record
from syncpod.lifecycle.cases import backoff, decide, phase
from tests.runtimes.require import Missing

DIRECTORY: Final = Path(__file__).parents[2] / "tests/lifecycle/vectors"
COUNTS: Final[dict[Kind, int]] = {"actions": 4000, "phase": 1500, "backoff": 1500}
"""How many cases of each kind a recording has, and each seed of a comparison."""
_OURS: Final = {"actions": ("actions", decide), "phase": ("result", phase), "backoff": ("results", backoff)}
_SHOWN: Final = 3


def write(version: str) -> None:
    """Record a kubelet's decisions about the cases of seed 0. Raises `Missing`, CalledProcessError."""
    directory = DIRECTORY / version
    directory.mkdir(exist_ok=True)
    for kind, count in COUNTS.items():
        answered = record(version, kind, cases(kind, count, version, seed=0))
        (directory / f"{kind}.jsonl.gz").write_bytes(gzip.compress(answered.encode(), mtime=0))


def differences(version: str, seed: int) -> list[str]:
    """Return a line for each case of a seed that a kubelet and syncpod decide differently.

    Raises `Missing`, CalledProcessError.
    """
    found: list[str] = []
    for kind, count in COUNTS.items():
        key, answer = _OURS[kind]
        for line in record(version, kind, cases(kind, count, version, seed=seed)).splitlines():
            answered: dict[str, Any] = json.loads(line)
            ours = answer(answered["case"])
            if ours != answered[key]:
                found.append(f"{kind} {answered['case']['name']}: the kubelet {answered[key]}, we {ours}")
    return found


def main() -> int:
    """Record or compare. Return 0 if nothing differs, 1 if something does, 2 if there is no recorder or it fails."""
    parser = argparse.ArgumentParser(prog="python -m qa.vectors", description=__doc__.partition("\n")[0])
    parser.add_argument("version", choices=VERSIONS)
    parser.add_argument("--compare", type=int, metavar="SEEDS", default=0, help="compare this many seeds, 1 and on")
    asked = parser.parse_args()
    try:
        if not asked.compare:
            write(asked.version)
            return 0
        found = [line for seed in range(1, asked.compare + 1) for line in differences(asked.version, seed)]
    except (Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    asked_for = asked.compare * sum(COUNTS.values())
    sys.stdout.write(
        f"{asked_for:,} cases, {len(found)} decided differently\n" + "".join(f"{line}\n" for line in found[:_SHOWN])
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
