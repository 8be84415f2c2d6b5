"""The story of a run: the faults, their times, and the requests to the fleet in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from qa.fleet_chaos import evidence, pods
from qa.fleet_chaos.headquarters import Headquarters
from qa.fleet_chaos.judge import Asked, CutOff, Death, Verdict, answers, judge, restarts
from qa.fleet_chaos.node import Machine
from qa.fleet_chaos.pods import GUARDED, NOWHERE, ROLLED, Wanted
from qa.fleet_chaos.readers import read_database, read_wire

_BOOT_ALONE = 30.0


@dataclass
class Story:
    """One run: its parts, the faults so far, and the findings."""

    wanted: Wanted
    machines: dict[str, Machine]
    headquarters: Headquarters
    directory: Path
    """Its `out` has the notes of the containers."""
    cut_seconds: float
    patience: float
    began: float = field(default_factory=time.monotonic)
    table: list[tuple[str, str, str]] = field(default_factory=list)
    """The rows: time, fault, and observation."""
    deaths: list[Death] = field(default_factory=list)
    cut_off: CutOff | None = None
    violations: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    asked: Asked = field(init=False)

    def __post_init__(self) -> None:
        own = {name: node for node in self.wanted.nodes for name in self.wanted.own(node)}
        copies = {ROLLED: self.wanted.rolled, GUARDED: self.wanted.guarded}
        self.asked = Asked(own, copies, {ROLLED: "v1", GUARDED: "web"}, frozenset({GUARDED}))

    # --- the acts -----------------------------------------------------------------------------------------------------

    def place(self) -> None:
        """Ask for all pods, and wait until each runs."""
        began, fleet = time.monotonic(), self.headquarters
        self._keep_servers()
        for node in self.wanted.nodes:
            fleet.insist("apply", "-f", "-", stdin=pods.own_pods(self.wanted, node, self.directory))
        fleet.insist("apply", "-f", "-", stdin=pods.guarded(self.wanted, self.directory))
        fleet.insist("apply", "-f", "-", stdin=pods.rolled(self.wanted, 1, self.directory))
        self.settle("all pods placed")
        seconds = time.monotonic() - began
        self.figures.append(f"{self.wanted.pods} pods placed and running in {seconds:.0f} s")

    def break_a_node(self, node: str) -> None:
        """Begin a rollout, kill a node with all that it runs, and boot it again."""
        self.roll_out(2)
        machine = self.machines[node]
        number = self._die(machine)
        self.tell(f"{node} killed: {number} processes, in a rollout to v2")
        time.sleep(60)
        machine.boot()
        self.tell(f"{node} booted again, 60 s later")
        self.settle("v2 rolled out")

    def cut_a_node_off(self, node: str) -> None:
        """Cut a node off; meanwhile reboot it, and kill the database and a Temporal server during a rollout."""
        machine, fleet = self.machines[node], self.headquarters
        machine.wire.cut()
        cut_at, ends = evidence.now(), time.monotonic() + self.cut_seconds
        self.tell(f"{node} cut off from its fleet")
        self.roll_out(3)
        goes = self.wanted.own(node)[0]
        fleet.insist("delete", "pod", goes, "--wait=false")
        self.asked = Asked(
            {name: on for name, on in self.asked.pods.items() if name != goes},
            self.asked.copies, self.asked.container, self.asked.never_more,
        )  # fmt: skip
        self.tell(f"{goes} of {node} withdrawn, which {node} cannot hear")
        cluster = fleet.cluster
        cluster.database.restart()
        self.tell("PostgreSQL ended as by a crash, and started again")
        self._keep_servers()
        number = self._die(machine)
        self.tell(f"{node} rebooted without a link: {number} processes killed")
        time.sleep(_BOOT_ALONE)
        rebooted = evidence.now()
        booting = threading.Thread(target=self._boot_alone, args=(machine,))
        booting.start()
        cluster.servers[0].kill()
        self.tell("the first Temporal server killed")
        time.sleep(60)
        answered = len(evidence.rows(fleet.insist("get", "pods", "-o", "wide", "--no-headers")))
        self.tell(f"(the fleet answers: {answered} pods)")
        cluster.servers[0].start()
        cluster.servers[0].until_serving()
        self.tell("the first Temporal server started again")
        booting.join()
        time.sleep(max(0.0, ends - time.monotonic()))
        self._look_at(machine)
        machine.wire.mend()
        self.cut_off = CutOff(node, cut_at, rebooted, evidence.now())
        minutes = (self.cut_off.ended - cut_at) / 60e9
        self.tell(f"{node} has its link again, after {minutes:.1f} min")
        self.settle("v3 rolled out, all nodes back")

    def judge(self) -> None:
        """Judge the fleet by all notes, again and again until no rule is broken or the patience is over."""
        out = self.directory / "out"
        endpoints = {name: machine.runtime.endpoint for name, machine in self.machines.items()}
        verdict: Verdict | None = None
        deadline = time.monotonic() + self.patience
        while verdict is None or (verdict.violations and time.monotonic() < deadline):
            live, listed = evidence.alive(out), evidence.sandboxes(endpoints)
            verdict = judge(
                evidence.read_notes(out), self.asked,
                deaths=self.deaths, alive=live, sandboxes=listed, cut_off=self.cut_off,
            )  # fmt: skip
            if verdict.violations:
                time.sleep(5)
        self.violations += verdict.violations
        self.figures += [f"{number} {what}" for what, number in verdict.figures.items()]

    def roll_out_what_fails(self) -> None:
        """Roll out an image that no node can pull: the fleet must stop after a few pods, and roll back by itself."""
        before, fleet = self.copies(), self.headquarters
        fleet.insist("apply", "-f", "-", stdin=pods.rolled(self.wanted, 4, self.directory, image=NOWHERE))
        self.tell(f"an image that is nowhere rolled out ({ROLLED}, {self.wanted.rolled} copies)")
        made: set[str] = set()

        def is_over() -> list[str]:
            made.update(self.copies() - before)
            listed = fleet.insist("get", "deployments", ROLLED, "-o", "wide", "--no-headers")
            return [] if "; rolling back to" in listed else [f"it stands at: {listed.strip()}"]

        self.until(is_over, "the bad image given up")
        self.settle("the last good template back")
        made -= self.copies()
        kept = len(before & self.copies())
        described = fleet.insist("describe", "deployment", ROLLED)
        why = next((line.strip() for line in described.splitlines() if "fails with" in line), "")
        self.tell(f"went back by itself: {why}")
        least = self.wanted.rolled - pods.surge(self.wanted)
        self.figures.append(
            f"{len(made)} pods of the bad image were made; {kept} of {self.wanted.rolled} copies were left alone"
        )
        if not why:
            self.violations.append(f"the history does not say why it went back: {described}")
        if len(made) > 2 * pods.surge(self.wanted) or kept < least:
            self.violations.append(f"a bad image reached {len(made)} pods, and left {kept} alone, of at least {least}")

    def read_and_steal(self, heard: Callable[[], bytes], server_name: str, invitation: Path, thief: str) -> None:
        """Search traffic and databases for secrets, and attack one node with another node's certificate."""
        victim = next(node for node in self.wanted.nodes if node != thief)
        for said, wrong in (read_wire(heard(), server_name), read_database(self.headquarters, victim)):
            self.figures.append(said)
            self.violations += wrong
        command = [*self.machines[thief].wire.within, sys.executable, "-m", "qa.fleet_chaos.thief"]
        done = subprocess.run([*command, str(invitation), victim], capture_output=True, text=True, check=False)
        self.figures.append(f"{thief}'s certificate against {victim}: {done.stdout.strip().splitlines()[-1:]}")
        if done.returncode:
            self.violations.append(f"stolen certificate: {done.stdout}{done.stderr}")

    # --- the parts of the acts ----------------------------------------------------------------------------------------

    def roll_out(self, version: int) -> None:
        """Apply this version of the Deployment that is rolled out, and expect it from now on."""
        self.headquarters.insist("apply", "-f", "-", stdin=pods.rolled(self.wanted, version, self.directory))
        containers = {**self.asked.container, ROLLED: f"v{version}"}
        self.asked = Asked(self.asked.pods, self.asked.copies, containers, self.asked.never_more)
        self.tell(f"v{version} of {ROLLED} rolled out")

    def copies(self) -> set[str]:
        """The names of the copies of the Deployment in rollout, as the fleet lists them."""
        listed = evidence.rows(self.headquarters.insist("get", "pods", "-o", "wide", "--no-headers"))
        return {row.name for row in listed if self.asked.deployment_of(row.name) == ROLLED}

    def settle(self, what: str) -> None:
        """Wait until the fleet's list of pods agrees with the containers' notes, and all rollouts are over."""
        out = self.directory / "out"

        def lacks() -> list[str]:
            before = restarts(evidence.read_notes(out), self.asked)
            listed = evidence.rows(self.headquarters.insist("get", "pods", "-o", "wide", "--no-headers"))
            wrong = answers(listed, self.asked, before, restarts(evidence.read_notes(out), self.asked, self.deaths))
            rollouts = self.headquarters.insist("get", "deployments", "-o", "wide", "--no-headers")
            if rollouts.count("is rolled out") != len(self.asked.copies):
                wrong.append(f"rollouts: {rollouts.strip()}")
            return wrong

        self.until(lacks, what)

    def until(self, lacks: Callable[[], list[str]], what: str) -> None:
        """Wait until `lacks` returns nothing; anything that it still returns at the deadline is a violation."""
        began, shown = time.monotonic(), 0.0
        while wrong := lacks():
            waited = time.monotonic() - began
            if waited > self.patience:
                self.violations += [f"not answered ({what}): {each}" for each in wrong[:20]]
                break
            if waited > shown + 30:
                shown = waited
                say(f"  {self.clock()} waiting: {what}: {len(wrong)} lack, such as: {'; '.join(wrong[:2])[:220]}")
            time.sleep(3)
        self.tell(f"({what}: {time.monotonic() - began:.0f} s)")

    def tell(self, what: str) -> None:
        """Add a row to the table of faults, and print it."""
        live = len(evidence.alive(self.directory / "out"))
        self.table.append((self.clock(), what, f"{live} containers live"))
        say(f"{self.clock()}  {what}  [{live} containers live, load {os.getloadavg()[0]:.0f}]")

    def clock(self) -> str:
        """Minutes and seconds since the story began."""
        seconds = int(time.monotonic() - self.began)
        return f"{seconds // 60:02}:{seconds % 60:02}"

    def _keep_servers(self) -> None:
        """Restart Temporal servers that have ended by themselves, as a supervisor would."""
        for number, server in enumerate(self.headquarters.cluster.servers, 1):
            if server.has_ended:
                server.start()
                server.until_serving()
                self.tell(f"Temporal server {number} had ended by itself, and was started again")

    def _die(self, machine: Machine) -> int:
        number = machine.die()
        self.deaths.append(Death(machine.name, evidence.now()))
        return number

    def _boot_alone(self, machine: Machine) -> None:
        try:
            machine.boot()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            self.violations.append(f"{machine.name} did not boot without its fleet: {error}")

    def _look_at(self, machine: Machine) -> None:
        """Ask the node that is cut off for its pods; it is a violation if the command fails."""
        try:
            listed = json.loads(machine.say("get", "pods", "-o", "json"))["items"]
        except RuntimeError as error:
            self.violations.append(f"{machine.name} does not answer while it is cut off: {error}")
            return
        self.tell(f"({machine.name}, still cut off, answers: {len(listed)} pods)")


def say(text: str) -> None:
    """Print a line, without buffering."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
