"""The units of `syncpod install` on a machine booted by systemd: kill -9, restarts, a reboot, and uninstallation.

Nightly: it boots systemd seven times, in namespaces.

Holds: Stopping or killing a systemd unit of `install` ends no pod.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nightly import NIGHTLY
from tests.runtimes.booted_systemd import Machine, booted
from tests.runtimes.require import Missing, do_without

SYNCPOD = str(Path(sys.prefix) / "bin/syncpod")
UNITS = ("syncpod-server.service", "syncpod-runtime.service", "syncpod-worker.service")
HERE = Path(__file__).resolve().parent.parent.parent
STATE = "/var/lib/sync pod/$x %h"
"""A path with words that systemd expands unless they are quoted."""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "app", "image": "busybox:1", "command": ["sleep", "86400"]}],
    },
}


@pytest.fixture
def machine() -> Iterator[Machine]:
    if not NIGHTLY:
        pytest.skip("boots a machine with systemd: `make nightly`")
    base = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        with booted(base, (HERE, Path(sys.prefix))) as one:
            yield one
    except Missing as why:
        do_without("systemd", str(why))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def test_systemd_serves_a_node_and_keeps_its_pods(machine: Machine) -> None:
    def syncpod(*words: str, check: bool = True) -> str:
        return machine.run(
            SYNCPOD, *words, check=check, environ={"SYNCPOD_STATE_DIR": STATE, "SYNCPOD_IMAGE_GC_HIGH": "91"}
        )

    def active() -> bool:
        return machine.run("systemctl", "is-active", *UNITS, check=False).split() == ["active"] * 3

    def instance() -> tuple[str, int]:
        """Return the id and the restart count of the pod's container."""
        status = json.loads(syncpod("get", "pod", "web", "-o", "json"))["status"]["containerStatuses"][0]
        assert "running" in status["state"]
        return str(status["containerID"]), int(status["restartCount"])

    def main_process(unit: str) -> str:
        return machine.run("systemctl", "show", "-p", "MainPID", "--value", unit).strip()

    syncpod("up", "--embedded", "--node-labels", "zone=a")
    syncpod("install")
    assert active()
    machine.run("systemd-analyze", "verify", *(f"/etc/systemd/system/{unit}" for unit in UNITS))
    machine.run("sh", "-c", "cat > /tmp/pod.json <<'END'\n" + json.dumps(POD) + "\nEND")
    syncpod("apply", "-f", "/tmp/pod.json", "--wait")
    first = instance()
    worker = main_process("syncpod-worker.service")
    given = machine.run("cat", f"/proc/{worker}/environ").split("\0")
    assert {f"SYNCPOD_STATE_DIR={STATE}", "SYNCPOD_IMAGE_GC_HIGH=91"} <= set(given)
    assert json.loads(syncpod("get", "nodes", "-o", "json"))["items"][0]["metadata"]["labels"]["zone"] == "a"

    for unit in UNITS:
        dead = main_process(unit)
        machine.run("kill", "-9", dead)
        wait_until(lambda unit=unit, dead=dead: active() and main_process(unit) != dead)  # type: ignore[misc]
        machine.run("systemctl", "restart", unit)
        wait_until(active)
        assert instance() == first, f"{unit} was killed, and started again"
    refused = machine.run("sh", "-c", f"SYNCPOD_STATE_DIR='{STATE}' {sys.prefix}/bin/syncpod down 2>&1 || echo $?")
    assert "systemd serves the node" in refused and refused.endswith("\n2\n")

    machine.reboot()
    wait_until(active)
    syncpod("wait", "pod", "web", "--for", "condition=Ready", "--timeout", "2m")
    assert instance()[1] == first[1] + 1, "it was started again once: after the reboot"

    second = instance()
    syncpod("uninstall")
    assert not machine.run("sh", "-c", "ls -d /etc/systemd/system/syncpod-* || true")
    syncpod("up")
    assert instance() == second
    syncpod("down")


WITNESS = """[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/sh -c 'echo units stop >> /var/order/order'
"""


def ends_late(name: str, priority: int, seconds: int) -> dict[str, object]:
    """A pod that records SIGTERM, and ends this many seconds later."""
    noted = f"echo {name} is to end >> /order/order; sleep {seconds}; echo {name} ends >> /order/order; exit 0"
    script = f"trap '{noted}' TERM; while :; do sleep 0.2; done"
    mounts = [{"name": "order", "mountPath": "/order"}]
    container = {"name": "app", "image": "busybox:1", "command": ["sh", "-c", script], "volumeMounts": mounts}
    spec = {
        "priority": priority,
        "terminationGracePeriodSeconds": 50,
        "containers": [container],
        "volumes": [{"name": "order", "hostPath": {"path": "/var/order"}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_shutdown_by_systemd_waits_for_pods_in_the_order_of_their_priorities(machine: Machine) -> None:
    """By its own logind: each pod ends some seconds after its SIGTERM, so that the order cannot be chance."""
    machine.run("mkdir", "-m", "1777", "/var/order")
    machine.run("sh", "-c", f"cat > /etc/systemd/system/witness.service <<'END'\n{WITNESS}END")
    machine.run("systemctl", "start", "witness")
    environ = {"SYNCPOD_STATE_DIR": STATE, "SYNCPOD_SHUTDOWN_GRACE_BY_PRIORITY": "0=60s,2000000000=40s"}
    for name, priority, seconds in (("web", 0, 4), ("critical", 2_000_000_000, 2)):
        document = json.dumps(ends_late(name, priority, seconds))
        machine.run("sh", "-c", f"mkdir -p /var/m && cat > /var/m/{name}.json <<'END'\n{document}\nEND")
    machine.run(SYNCPOD, "up", "--embedded", "--manifests", "/var/m", environ=environ)

    def running() -> bool:
        pods = json.loads(machine.run(SYNCPOD, "get", "pods", "-o", "json", environ=environ))["items"]
        return [pod["status"]["phase"] for pod in pods] == ["Running"] * 2

    wait_until(running)
    wait_until(lambda: "shutdown" in machine.run("systemd-inhibit", "--list", "--no-pager"))
    machine.reboot()
    assert machine.run("cat", "/var/order/order").splitlines() == [
        "web is to end",
        "web ends",
        "critical is to end",
        "critical ends",
        "units stop",
    ]


def test_a_users_own_units_serve_again_after_a_reboot_and_nobody_has_logged_in(machine: Machine) -> None:
    """Also after a power cut, at which nothing is stopped."""
    kept = (HERE, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    ways = {str(way) for each in kept for way in each.parents if not any(way.is_relative_to(one) for one in kept)}
    machine.run("chmod", "a+x", *ways)  # of the machine's own layer: a user comes to the program, also below /root
    machine.run("useradd", "--create-home", "somebody")
    user = machine.run("id", "-u", "somebody").strip()
    machine.run("loginctl", "enable-linger", "somebody")

    def as_user(*line: str, check: bool = True) -> str:
        home = {"HOME": "/home/somebody", "XDG_RUNTIME_DIR": f"/run/user/{user}"}
        owner = (f"--reuid={user}", f"--regid={user}", "--clear-groups")
        return machine.run("setpriv", *owner, *line, check=check, environ=home)

    def active() -> bool:
        return as_user("systemctl", "--user", "is-active", *UNITS, check=False).split() == ["active"] * 3

    def instance() -> tuple[str, int]:
        """Return the id and the restart count of the pod's container."""
        status = json.loads(as_user(SYNCPOD, "get", "pod", "web", "-o", "json"))["status"]["containerStatuses"][0]
        assert "running" in status["state"]
        return str(status["containerID"]), int(status["restartCount"])

    wait_until(lambda: as_user("systemctl", "--user", "is-system-running", check=False).strip() == "running")
    as_user(SYNCPOD, "up", "--embedded")
    as_user("sh", "-c", "cat > ~/pod.json <<'END'\n" + json.dumps(POD) + "\nEND")
    as_user("sh", "-c", f"{SYNCPOD} apply -f ~/pod.json --wait")
    first = instance()
    as_user(SYNCPOD, "install")
    assert active()
    assert instance() == first
    for restarts, again in ((1, machine.reboot), (2, machine.lose_power)):
        again()
        # Nobody is logged in: commands run only as the machine's root.
        wait_until(lambda: len(machine.run("pgrep", "-u", user, "-x", "sleep", check=False).split()) == 1)
        assert not machine.run("loginctl", "list-sessions", "--no-legend")
        wait_until(active)
        as_user(SYNCPOD, "wait", "pod", "web", "--for", "condition=Ready", "--timeout", "2m")
        assert instance()[1] == first[1] + restarts
    last = instance()
    as_user(SYNCPOD, "uninstall")
    as_user(SYNCPOD, "up")
    assert instance() == last
    as_user(SYNCPOD, "down")


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it does not come")
