"""`python -m qa.fleet_chaos`: break a fleet of four nodes, and judge it by the notes of its containers."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from qa.chaos.witness import build
from qa.fleet_chaos.headquarters import Headquarters
from qa.fleet_chaos.network import Network
from qa.fleet_chaos.node import Machine, all_at_once
from qa.fleet_chaos.pods import Wanted
from qa.fleet_chaos.readers import Eavesdropper
from qa.fleet_chaos.story import Story, say
from syncpod.settings.invitation import read_invitation
from tests.runtimes.leftovers import unmount_below
from tests.runtimes.require import Missing

NODES = ("n1", "n2", "n3", "n4")


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell the story, and print it. Return 0 if no rule was broken, 1 if one was, 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m qa.fleet_chaos", description=__doc__)
    parser.add_argument("--pods", type=int, default=40, help="in all (default: %(default)s)")
    parser.add_argument("--cut", type=float, default=10, help="minutes that a node is cut off (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=15, help="minutes to come to rest (default: %(default)s)")
    parser.add_argument("--evidence", type=Path, help="where notes and logs are kept")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that all started processes are ended
    wanted = Wanted.of(chosen.pods, NODES)
    say(f"{wanted.pods} pods on {len(NODES)} nodes: {wanted.each} of each node's own, {wanted.rolled} and "
        f"{wanted.guarded} copies; {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}")  # fmt: skip
    try:
        story = _tell(wanted, chosen.cut * 60, chosen.patience * 60, chosen.evidence)
    except Missing as missing:
        sys.stderr.write(f"fleet_chaos: {missing}\n")
        return 2
    _print(story)
    return int(bool(story.violations))


def _tell(wanted: Wanted, cut: float, patience: float, kept: Path | None) -> Story:
    with contextlib.ExitStack() as last:
        directory = Path(last.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-fleet-")))
        last.callback(unmount_below, directory)
        _lay_out(directory)
        network = Network()
        last.callback(network.remove)
        headquarters = last.enter_context(Headquarters(directory / "headquarters", network.address))
        machines: dict[str, Machine] = {}
        for name in wanted.nodes:
            machines[name] = Machine(name, network.plug(name), directory / name)
            last.callback(machines[name].remove)
        say("cluster and containerds run")
        if kept is not None:
            last.callback(_keep, kept, directory)
        ear = last.enter_context(Eavesdropper(network.bridge, directory / "heard.pcap"))
        all_at_once([threading.Thread(target=machine.up) for machine in machines.values()])
        invitations = {name: headquarters.invite(name, directory / f"{name}.invitation") for name in machines}
        for name, machine in machines.items():
            machine.say("join", str(invitations[name]))
        while headquarters.say("get", "nodes", "--no-headers").count("Ready") < len(machines):
            time.sleep(1)
        story = Story(wanted, machines, headquarters, directory, cut, patience)
        _acts(story, ear, invitations)
        return story


def _acts(story: Story, ear: Eavesdropper, invitations: dict[str, Path]) -> None:
    first, second, thief, _ = story.wanted.nodes
    story.place()
    story.break_a_node(first)
    story.cut_a_node_off(second)
    story.judge()
    story.roll_out_what_fails()
    story.read_and_steal(ear.end, read_invitation(invitations[thief]).server_name, invitations[thief], thief)


def _lay_out(directory: Path) -> None:
    """Make the directories that containers mount, which the users of the containers may read and write."""
    directory.chmod(0o755)
    for place in ("out", "bin"):
        (directory / place).mkdir()
    (directory / "out").chmod(0o777)
    build(directory / "bin" / "witness")


def _keep(place: Path, directory: Path) -> None:
    """Copy notes and logs to `place`, to look for causes later."""
    place.mkdir(parents=True, exist_ok=True)
    shutil.copytree(directory / "out", place / "out", dirs_exist_ok=True)
    logs = (directory.glob(pattern) for pattern in ("headquarters/*.log", "*/state/log/*"))
    for log in itertools.chain.from_iterable(logs):
        shutil.copy(log, place / str(log.relative_to(directory)).replace("/", "-"))


def _print(story: Story) -> None:
    say("\n| at | injected, and (seen) | |\n|---|---|---|")
    say("\n".join(f"| {' | '.join(line)} |" for line in story.table))
    said = story.headquarters.said
    slowest = max(said, key=lambda each: each.seconds)
    again = sum(each.tries > 1 for each in said)
    say(f"\n{len(said)} commands to the fleet, each answered; {again} of them after more "
        f"than one try; the longest took {slowest.seconds:.0f} s ({slowest.words})")  # fmt: skip
    say("\n".join(story.figures))
    say("\n".join(f"VIOLATION  {each}" for each in story.violations))
    say(f"{len(story.violations)} violations")


if __name__ == "__main__":
    sys.exit(main())
