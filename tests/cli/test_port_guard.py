"""The firewall rule of `up --guard` lets only the owner connect; tried in a network namespace of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.failure import BadInput
from syncpod.cli.machine import port_guard
from syncpod.cli.machine.listening_process import listening_ports

INSIDE = """
import json, os, socket, subprocess
from syncpod.cli.machine import port_guard
from syncpod.cli.machine.listening_process import listening_ports

subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
guarded, other = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
port = guarded.getsockname()[1]
assert listening_ports(os.getpid()) == sorted((port, other.getsockname()[1]))

def connects(uid, server):
    child = os.fork()
    if child == 0:
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
        try:
            socket.socket().connect(server.getsockname())  # needs no module that the user may not read
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def tried():
    return [connects(uid, server) for uid in (0, 65534) for server in (guarded, other)]

def tables():
    return subprocess.run(("nft", "list", "tables"), capture_output=True, text=True).stdout.split("\\n")[:-1]

said = {"before": tried(), "absent": port_guard.remove_guard("n1")}
port_guard.require_possible()
port_guard.set_guard("n1", [other.getsockname()[1]])  # the ports of an earlier server
port_guard.set_guard("n1", [port])
said |= {"set": tried(), "known": port_guard.is_set("n1"), "tables": tables()}
listed = subprocess.run(("nft", "list", "ruleset"), capture_output=True, text=True).stdout
said |= {"rules": listed.count("tcp dport"), "removed": port_guard.remove_guard("n1")}
said |= {"after": tried(), "left": tables()}
print(json.dumps(said))
"""

RESTARTED = """
import json, os, subprocess, sys
from pathlib import Path
from syncpod.cli.machine import port_guard
from syncpod.cli.machine.listening_process import listening_ports

subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
state = Path(sys.argv[1])
port_guard.set_guard("n1", [1])  # the ports of an earlier server
command = (sys.executable, "-m", "syncpod.cli.main", "server", "--state-dir", str(state))
server = subprocess.Popen(command, env=os.environ | {"SYNCPOD_NODE": "n1"}, stdout=subprocess.PIPE, text=True)
try:
    line = server.stdout.readline()
    listening = listening_ports(json.loads((state / "server.json").read_text())["process"]["pid"])
    told = subprocess.run(("nft", "--json", "list", "table", "inet", "syncpod-n1"), capture_output=True, text=True)
    (rule,) = [each["rule"] for each in json.loads(told.stdout)["nftables"] if "rule" in each]
    (ports,) = [each["match"]["right"] for each in rule["expr"] if "dport" in str(each)]
finally:
    server.terminate()
    server.wait()
print(json.dumps({"said": line, "listening": listening, "guarded": sorted(ports["set"])}))
"""


def in_own_network(script: str = INSIDE, *arguments: str) -> dict[str, Any]:
    command = ("unshare", "--net", sys.executable, "-c", script, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can set a rule")
@pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed")
def test_only_the_owner_connects() -> None:
    said = in_own_network()
    assert (said["before"], said["absent"]) == ([True] * 4, False)
    assert said["set"] == [True, True, False, True], "root, root elsewhere, a stranger, a stranger elsewhere"
    assert (said["known"], said["tables"], said["rules"]) == (True, ["table inet syncpod-n1"], 1)
    assert (said["removed"], said["after"], said["left"]) == (True, [True] * 4, [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can set a rule")
@pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed")
def test_a_server_that_is_started_by_hand_is_guarded_as_the_one_before(tmp_path: Path) -> None:
    """Its HTTP API, metrics and internal services get other ports with each start."""
    told = in_own_network(RESTARTED, str(tmp_path))
    assert "Temporal server at" in told["said"]
    assert len(told["listening"]) > 1
    assert told["guarded"] == told["listening"]


def test_the_rule_is_one_transaction() -> None:
    text = port_guard.ruleset("edge-1.example", [7233, 40001, 7233], [0, 1000, 0])
    assert text.splitlines()[:3] == [
        "table inet syncpod-edge-1.example { }",
        "delete table inet syncpod-edge-1.example",
        "table inet syncpod-edge-1.example {",
    ]
    assert 'oifname "lo" tcp dport { 7233, 40001 } meta skuid != { 0, 1000 } reject with tcp reset' in text


def test_where_it_cannot_be_set_a_sentence_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BadInput, match="only root can set a rule in the packet filter"):
        port_guard.require_possible()
    assert not port_guard.is_set("n1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BadInput, match="nft is missing: install nftables"):
        port_guard.require_possible()


def test_a_process_without_ports_listens_at_none() -> None:
    assert listening_ports(2**22 - 1) == []
