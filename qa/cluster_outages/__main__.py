"""`python -m qa.cluster_outages`: a node of ours in a real cluster, with everything that can be taken from it."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from qa.cluster_outages import record
from qa.cluster_outages.node import node
from qa.cluster_outages.page import TRIALS
from qa.cluster_outages.room import Fell, Room
from qa.conformance.control_plane import ControlPlane
from qa.conformance.namespace import network_namespace
from qa.conformance.nodes import runtime
from tests.runtimes.require import Missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all trials held, 1 if one fell, 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m qa.cluster_outages", description=__doc__)
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help=f"some of {', '.join(TRIALS)} (default: all)")
    parser.add_argument("--out", type=Path, help="where logs stay (default: a new directory)")
    parser.add_argument("--record", action="store_true", help="keep the results, and make docs/cluster.md")
    chosen = parser.parse_args(arguments)
    if unknown := sorted(set(chosen.trials) - set(TRIALS)):
        parser.error(f"{', '.join(unknown)}: no such trial; there are {', '.join(TRIALS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out = (chosen.out or Path(tempfile.mkdtemp(prefix="syncpod-outages-"))).resolve()
    say(f"logs in {out}; load {os.getloadavg()[0]:.1f}")
    try:
        results = run(chosen.trials or list(TRIALS), out)
    except (Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"cluster_outages: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    if chosen.record:
        from qa.cluster_outages import page

        record.write(results)
        page.write()
    return int(not all(each.has_held for each in results))


def run(names: Sequence[str], out: Path) -> list[record.Result]:
    """Run trials in a new cluster, one after the other, and print a line for each."""
    notes = out / "notes"
    notes.mkdir(parents=True)
    notes.chmod(0o777)
    results = []
    with (
        network_namespace(),
        ControlPlane(out / "cluster") as cluster,
        runtime("2.4") as containerd,
        node(cluster, containerd, out / "node") as ours,
    ):
        room = Room(cluster, ours, notes)
        for name in names:
            results.append(_run(name, room))
            say(f"{'held' if results[-1].has_held else 'FELL'} {name}: {results[-1].numbers}")
            room.restore()
    return results


def _run(name: str, room: Room) -> record.Result:
    try:
        return record.Result(name, True, TRIALS[name](room))
    except Fell as fell:
        return record.Result(name, False, str(fell))
    except (RuntimeError, subprocess.SubprocessError, OSError, KeyError, IndexError, StopIteration) as error:
        traceback.print_exc()
        return record.Result(name, False, f"{type(error).__name__}: {error}".splitlines()[0])


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
