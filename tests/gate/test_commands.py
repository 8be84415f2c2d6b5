"""`syncpod fleet` from an invitation to a node that the gate serves, and to the node's removal."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, TLSConfig

from syncpod.cli.main import run
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import Gate, TemporalFrontend
from syncpod.settings.invitation import read_invitation
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import make_signing_keys
from tests.runtimes.temporal import DevServer

SYNCPOD = [sys.executable, "-m", "syncpod.cli.main"]


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    returncode: int
    stdout: str
    stderr: str


def fleet(state_dir: Path, *words: str) -> Done:
    """Run a command in this process, within the directory above the state directory."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(state_dir.parent), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["fleet", *words, "--state-dir", str(state_dir)])
    return Done(code, out.getvalue(), err.getvalue())


@contextmanager
def serving(state_dir: Path, server: DevServer) -> Iterator[subprocess.Popen[str]]:
    command = [*SYNCPOD, "fleet", "gate", "--listen", "127.0.0.1:0", "--name", "localhost"]
    command += ["--temporal", server.address, "--state-dir", str(state_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as gate:
        try:
            assert gate.stdout is not None
            line = gate.stdout.readline()
            assert line.startswith("the fleet's gate listens at localhost:"), line
            yield gate
        finally:
            gate.send_signal(signal.SIGINT)
            assert gate.wait(30) == 0


async def test_from_an_invitation_to_its_end(tmp_path: Path, temporal_server: DevServer) -> None:
    state_dir = tmp_path / "state"
    begin(state_dir)
    assert fleet(state_dir, "invite", "n1").returncode == 2, "no gate yet, and none named"
    with serving(state_dir, temporal_server):
        invited = fleet(state_dir, "invite", "n1", "--for", "2h")
        assert (invited.returncode, invited.stdout) == (0, "node/n1 invited: n1.invitation\n"), invited.stderr
        again = fleet(state_dir, "invite", "n1")
        assert (again.returncode, "exists" in again.stderr) == (2, True)
        invitation = read_invitation(tmp_path / "n1.invitation")
        tls = TLSConfig(
            server_root_ca_cert=invitation.authorities.encode(),
            domain=invitation.server_name,
            client_cert=invitation.certificate.encode(),
            client_private_key=invitation.key.encode(),
        )
        client = await Client.connect(invitation.address, namespace=invitation.namespace, tls=tls)
        request = DescribeNamespaceRequest(namespace=invitation.namespace)
        await client.workflow_service.describe_namespace(request)
        listed = fleet(state_dir, "certificates").stdout.splitlines()
        assert [line.split()[0] for line in listed] == ["NODE", "n1"]
        assert listed[1].endswith("valid")
        fleet_there = open_fleet(state_dir / "fleet", now())
        keys = make_signing_keys(fleet_there.directory)
        with pytest.raises(SettingsInvalid, match="another gate"):
            Gate(fleet_there, keys, TemporalFrontend(temporal_server.address, "default"), [])
        assert fleet(state_dir, "revoke", "n1").returncode == 0
        with pytest.raises(RPCError):
            while True:
                await client.workflow_service.describe_namespace(request)
    assert fleet(state_dir, "certificates").stdout.splitlines()[1].endswith("revoked")
    assert fleet(state_dir, "revoke", "n2").returncode == 1


def begin(state_dir: Path) -> None:
    """Make the files that the first start of a worker or a gate makes."""
    make_signing_keys(open_fleet(state_dir / "fleet", now()).directory)


WITHOUT_A_FLEET = (
    *(("invite", "n1", "--gate", "h:1"), ("revoke", "n1"), ("certificates",), ("rotate",), ("retire",)),
    *(("key", "list"), ("key", "rotate"), ("key", "rotate", "--sealing"), ("codec",), ("remove", "n1")),
)


@pytest.mark.parametrize("words", WITHOUT_A_FLEET, ids="-".join)
def test_only_a_worker_or_a_gate_begins_a_fleet(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = fleet(tmp_path / "state", *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "no fleet is commanded from here" in done.stderr
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("words", WITHOUT_A_FLEET, ids="-".join)
def test_without_the_keys_of_a_fleet_no_other_keys_are_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    begin(state_dir := tmp_path / "state")
    shutil.rmtree(keys := state_dir / "fleet" / "keys")
    before = sorted(tmp_path.rglob("*"))
    done = fleet(state_dir, *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"{keys} has no keys of the fleet" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("invite", "N_1"), "NODE: 'N_1' must be the name of a node"),
        (("invite", "n1", "--for", "0"), "--for: '0' must be a duration"),
        (("invite", "n1", "--for", "11y"), "--for: '11y' must be a duration"),
        (("invite", "n1", "--gate", "host"), "--gate: 'host' must be a host and a port"),
        (("gate", "--listen", "7300"), "--listen: '7300' must be an address and a port"),
        (("gate", "--name", "a/b"), "--name: 'a/b' must be the name"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_done(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done = fleet(tmp_path / "state", *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert sentence in done.stderr
    assert not (tmp_path / "state" / "fleet").exists()


def test_an_authority_is_not_retired_before_its_nodes_have_another(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    umask = os.umask(0)
    try:
        begin(state_dir)
        assert fleet(state_dir, "invite", "n1", "--gate", "h:1", "-o", "-").returncode == 0
    finally:
        os.umask(umask)
    assert state_dir.joinpath("fleet").stat().st_mode & 0o777 == 0o700
    assert fleet(state_dir, "retire").returncode == 1
    assert fleet(state_dir, "rotate").returncode == 0
    refused = fleet(state_dir, "retire")
    assert (refused.returncode, "n1 would be kept out" in refused.stderr) == (1, True)
    assert fleet(state_dir, "invite", "n1", "--gate", "h:1", "-o", "-").returncode == 0
    assert fleet(state_dir, "retire").stdout == "authority/1 retired\n"
