"""The systemd units of a node and of a fleet: their contents and owners, and that systemd accepts them.

Holds: Stopping or killing a systemd unit of `install` ends no pod.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.cli.failure import BadInput
from syncpod.cli.machine import systemd
from syncpod.cli.machine.state_directory import ServerRecord, StartedWorker, prepare, write_server, write_worker
from syncpod.cli.machine.systemd_units import (
    FLEET_GATE,
    FLEET_WORKER,
    RUNTIME,
    SERVER,
    WORKER,
    DevServerUnit,
    Temporal,
    UnitSettings,
    environment_file,
    fleet_units,
    node_units,
    owner_of,
)
from syncpod.cli.machine.units_of_node import given_to_units
from syncpod.kernel.procfs import ProcessIdentity
from syncpod.settings.kept import KeptSettings, write_kept_settings
from syncpod.settings.node import node_settings
from syncpod.settings.process_records import RuntimeRecord, write_runtime
from tests.cli.conftest import Command, program

STATE = Path("/var/lib/sync pod/$x %h")
SETTINGS = UnitSettings(Path("/usr/bin/true"), STATE, STATE / "units.env", system=True)
OWN = DevServerUnit("127.0.0.1:7233", 8233, guard=True)
GONE = ProcessIdentity(1, 0, "another boot")


def settings_of(unit: str) -> dict[str, list[str]]:
    """Return the values of each setting of a unit."""
    found: dict[str, list[str]] = {}
    for line in unit.splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, text = line.partition("=")
            found.setdefault(name, []).append(text)
    return found


def test_a_node_has_a_unit_for_each_process_that_is_its_own() -> None:
    own, others = Temporal(OWN.address, "default", OWN), Temporal("t:7233", "pods", None)
    assert set(node_units(SETTINGS, own, embedded=True, simulated=False)) == {SERVER, RUNTIME, WORKER}
    assert set(node_units(SETTINGS, others, embedded=False, simulated=False)) == {WORKER}
    worker = settings_of(node_units(SETTINGS, others, embedded=False, simulated=False)[WORKER])
    assert {'"TEMPORAL_ADDRESS=t:7233"', '"TEMPORAL_NAMESPACE=pods"'} <= set(worker["Environment"])
    assert "Wants" not in worker
    assert worker["After"] == ["network.target containerd.service crio.service"]


def test_no_unit_ends_a_pod_and_each_comes_back() -> None:
    units = node_units(SETTINGS, Temporal(OWN.address, "default", OWN), embedded=True, simulated=True)
    for text in units.values():
        unit = settings_of(text)
        assert (unit["Restart"], unit["StartLimitIntervalSec"], unit["Type"]) == (["always"], ["0"], ["notify"])
        assert not {"Requires", "BindsTo", "PartOf"} & set(unit), "one unit that is stopped would stop another"
        assert unit["OOMScoreAdjust"] == ["-999"], "killed after every pod"
        assert not {"PrivateMounts", "ProtectSystem", "PrivateTmp"} & set(unit), "its mounts would be its own"
    runtime = settings_of(units[RUNTIME])
    assert (runtime["KillMode"], runtime["OOMPolicy"], runtime["TasksMax"]) == (["process"], ["continue"], ["infinity"])
    assert runtime["ExecStart"][0].endswith(" runtime --simulate")
    assert settings_of(units[SERVER])["ExecStart"] == ["/usr/bin/true server --port 7233 --ui-port 8233 --guard"]


def test_a_fleet_has_a_worker_and_a_gate_which_may_write_nothing_but_its_state() -> None:
    units = fleet_units(
        SETTINGS, Temporal("t:7233", "pods", None), listen="[::]:7300", names=["fleet.example.com", "a b"]
    )
    assert set(units) == {FLEET_WORKER, FLEET_GATE}
    gate = settings_of(units[FLEET_GATE])
    assert gate["ExecStart"] == [
        '/usr/bin/true fleet gate --listen [::]:7300 --name fleet.example.com --name "a b"',
    ]
    assert (gate["ProtectSystem"], gate["NoNewPrivileges"]) == (["strict"], ["yes"])
    theirs = UnitSettings(Path("/usr/bin/true"), STATE, STATE / "units.env", system=False)
    units = fleet_units(theirs, Temporal("t:7233", "pods", None), listen="[::]:7300", names=[])
    assert "ProtectSystem" not in settings_of(units[FLEET_GATE])
    assert settings_of(units[FLEET_GATE])["WantedBy"] == ["default.target"]


def test_systemd_can_read_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze, of the package systemd, is not installed")
    temporal = Temporal(OWN.address, "default", OWN)
    units = node_units(SETTINGS, temporal, embedded=True, simulated=False)
    units |= fleet_units(SETTINGS, temporal, listen="127.0.0.1:7300", names=["a"])
    for name, text in units.items():
        (tmp_path / name).write_text(text)
    line = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *(str(tmp_path / each) for each in units)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / WORKER).write_text(units[WORKER].replace("KillMode=mixed", "KillMode=gently"))
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert "gently" in done.stderr, "the check above would pass whatever the units say"


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), st.text(st.characters(codec="ascii", exclude_characters="\0\r"))
    )
)
def test_an_environment_file_is_read_as_it_was_meant(variables: dict[str, str]) -> None:
    """By a shell, whose rules within double quotes systemd has."""
    text = environment_file(variables)
    shell = "".join(f'printf "%s\\0" "${{{name}}}"\n' for name in sorted(variables))
    done = subprocess.run(["sh", "-c", f"{text}\n{shell}"], env={}, capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [variables[name] for name in sorted(variables)]


def test_units_are_given_configuration_but_nothing_that_they_or_the_node_keep() -> None:
    environ = {
        "TEMPORAL_TLS": "true",
        "TEMPORAL_API_KEY": "secret",
        "TEMPORAL_ADDRESS": "t:7233",
        "OTEL_TRACES_EXPORTER": "otlp",
        "SYNCPOD_ALLOW_FOREIGN_KUBELET": "true",
        "SYNCPOD_IMAGE_GC_HIGH": "90",
        "SYNCPOD_NODE": "n1",
        "SYNCPOD_STATE_DIR": "/s",
        "HTTPS_PROXY": "http://proxy",
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "not ours",
    }
    assert set(given_to_units(environ)) == {
        *(
            "TEMPORAL_TLS",
            "TEMPORAL_API_KEY",
            "OTEL_TRACES_EXPORTER",
            "SYNCPOD_ALLOW_FOREIGN_KUBELET",
            "HTTPS_PROXY",
            "PATH",
        )
    }


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of a node that `up` has started before; units go to a directory of the test's own."""
    directory, units = tmp_path / "state", tmp_path / "units"
    units.mkdir()
    prepare(directory)
    write_server(directory, ServerRecord(GONE, "127.0.0.1:7234", "http://127.0.0.1:8234", detached=True))
    write_runtime(directory, RuntimeRecord(GONE, "unix:///r.sock", simulated=True, detached=True))
    write_worker(
        directory,
        StartedWorker(GONE, "n1", "/l", "unix:///r.sock", "127.0.0.1:7234", "default", own_server=True),
    )
    monkeypatch.setenv("SYNCPOD_STATE_DIR", str(directory))
    write_kept_settings(directory, KeptSettings(node_settings(os.environ).given))
    monkeypatch.setattr(systemd, "unit_directory", lambda environ: units)
    return directory


async def test_a_setting_that_the_node_was_not_started_with_is_refused(
    syncpod: Command, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The units have the node's kept settings, so this one would be ignored in silence."""
    monkeypatch.setenv("SYNCPOD_IMAGE_GC_HIGH", "90")
    refused = await syncpod("install", "--print")
    assert (refused.code, refused.out) == (2, "")
    assert "was started without --image-gc-high, not with --image-gc-high 90: start it so first" in refused.err


async def test_print_shows_the_units_and_no_secret(
    syncpod: Command, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_API_KEY", "do-not-show")
    shown = await syncpod("install", "--print")
    assert shown.code == 0
    assert all(name in shown.out for name in (SERVER, RUNTIME, WORKER, "TEMPORAL_API_KEY"))
    assert "server --port 7234 --ui-port 8234" in shown.out
    assert "do-not-show" not in shown.out
    assert not list((state.parent / "units").iterdir())


async def test_what_serves_a_node_already_is_neither_started_nor_ended_beside_it(syncpod: Command, state: Path) -> None:
    unit = node_units(
        UnitSettings(Path("/usr/bin/true"), state, state / "units.env", system=True),
        Temporal("t:7233", "pods", None),
        embedded=False,
        simulated=False,
    )[WORKER]
    assert owner_of(unit) == str(state)
    (state.parent / "units" / WORKER).write_text(unit)
    for command in ("up", "down"):
        refused = await syncpod(command)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(f"syncpod: systemd serves the node of {state}: ")


def test_units_of_another_state_directory_are_left_alone(state: Path) -> None:
    there = state.parent / "units" / WORKER
    there.write_text("# For the state directory /another\n")
    with pytest.raises(BadInput, match="is for the state directory /another: remove it first"):
        systemd.require_ours(state, [WORKER])
    there.write_text("[Service]\nExecStart=/bin/true\n")
    with pytest.raises(BadInput, match="is not of `syncpod install`"):
        systemd.require_ours(state, [WORKER])
    assert systemd.installed(state) == {}


def test_without_a_node_or_without_systemd_nothing_is_written(tmp_path: Path) -> None:
    environ = {"SYNCPOD_STATE_DIR": str(tmp_path / "state")}
    refused = program("install", environ=environ)
    assert refused.code == 2
    assert "no node of" in refused.err
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs here")
    refused = program("fleet", "install", "--name", "a", environ={**environ, "TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert refused.code == 2
    assert refused.err.startswith("syncpod: systemd does not run on this machine")
    assert not (tmp_path / "state").exists()
    assert program("uninstall", environ=environ).err.startswith("No units of the node of")
    assert program("fleet", "install", "--listen", "7300", environ=environ).code == 2


def test_a_user_has_units_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert systemd.unit_directory({"HOME": "/home/me"}) == Path("/home/me/.config/systemd/user")
    assert systemd.unit_directory({"HOME": "/home/me", "XDG_CONFIG_HOME": "/c"}) == Path("/c/systemd/user")
