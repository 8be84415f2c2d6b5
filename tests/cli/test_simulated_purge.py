"""`down --purge` if a simulated pod does not end."""

import errno
import json
import os
import subprocess
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from syncpod.agent.fleet.contact import Contact
from syncpod.agent.fleet.kept_intent import keep_intent
from syncpod.cli.commands.down import down
from syncpod.cli.failure import Failure
from syncpod.cli.machine.purge import purge
from syncpod.cli.machine.state_directory import MARK, prepare
from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.messages.fleet import Intent
from syncpod.settings.kept import KeptSettings, write_kept_settings
from syncpod.settings.membership import membership_file
from syncpod.settings.table import CGROUP_PARENT, NODE
from syncpod.translation.context import NodeContext
from tests.cli.conftest import program
from tests.cli.machine import remains
from tests.cli.manifests import manifest

REFUSES = {"simulate.syncpod.dev/pod": json.dumps({"failureRates": {"StopContainer": 1, "StopPodSandbox": 1}})}
"""Every kill of the pod fails."""


def test_a_simulated_pod_that_cannot_be_killed_is_purged(tmp_path: Path) -> None:
    state = tmp_path / "state"
    environ = {
        "SYNCPOD_STATE_DIR": str(state),
        "SYNCPOD_MEMORY_DIR": str(tmp_path / "memory"),
        "SYNCPOD_NODE": "vm-purged",
        "TEMPORAL_CONFIG_FILE": os.devnull,
    }
    pod = manifest("stuck", terminationGracePeriodSeconds=1)
    pod["metadata"]["annotations"] = REFUSES
    try:
        upped = program("up", "--simulate", "-f", "-", "--timeout", "60s", environ=environ, stdin=json.dumps(pod))
        assert upped.code == 0, upped.err
        kept = program("down", "--timeout", "1s", environ=environ)
        assert kept.code == 1 and 'pod "stuck" did not end within 1s' in kept.err, "only a purge gives it up"
        purged = program("down", "--purge", "--timeout", "1s", environ=environ)
        assert (purged.code, purged.out.splitlines()[-1]) == (0, f"{state} removed"), purged.err
        assert "Note: nothing of them runs, since they are simulated: they are removed as they are" in purged.err
        assert not state.exists()
    finally:
        program("down", "--purge", "--timeout", "1s", environ=environ)
    assert remains(environ) == []


def test_a_purge_that_could_not_remove_cgroups_is_repeated_with_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once the directory has gone, nothing names the cgroups any more."""
    state, tried = tmp_path / "state", list[tuple[str, bool]]()
    prepare(state)
    write_kept_settings(state, KeptSettings({NODE.variable: "vm-purged", CGROUP_PARENT.variable: "purged-pods"}))

    def remove(node: NodeContext) -> None:
        tried.append((node.cgroup_parent, (state / MARK).exists()))
        if len(tried) == 1:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), "/sys/fs/cgroup/purged-pods")

    monkeypatch.setattr("syncpod.cli.machine.purge.remove_left_tiers", remove)
    monkeypatch.setenv("SYNCPOD_MEMORY_DIR", str(tmp_path / "memory"))
    purged = partial(down, str(state), "", False, True, "0")
    with pytest.raises(Failure, match="the cgroups above the pods cannot be removed: /sys/fs/cgroup/purged-pods"):
        purged()
    purged()
    assert tried == [("purged-pods", True)] * 2
    assert capsys.readouterr().out == f"{state} removed\n"
    assert not state.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_purge_that_something_mounted_kept_is_repeated_with_the_same_settings(tmp_path: Path) -> None:
    state, logs, memory = tmp_path / "state", tmp_path / "logs", tmp_path / "memory"
    environ = {"SYNCPOD_STATE_DIR": str(state), "SYNCPOD_MEMORY_DIR": str(memory), "TEMPORAL_CONFIG_FILE": os.devnull}
    named = {"SYNCPOD_NODE": "vm-mounted", "SYNCPOD_LOG_DIR": str(logs)}
    logs.mkdir()
    upped = program("up", "--simulate", environ={**environ, **named})
    try:
        assert upped.code == 0, upped.err
        (mounted := state / "runtime/mounted").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], check=True)
        refused = program("down", "--purge", environ=environ)
        subprocess.run(["umount", mounted], check=True)
        assert refused.code == 1 and "something is mounted" in refused.err, refused
        purged = program("down", "--purge", environ=environ)
        assert (purged.code, purged.out) == (0, f"{state} removed\n"), purged
        assert not state.exists() and not logs.exists(), "the logs are where the node's settings say"
    finally:
        program("down", "--purge", environ=environ)
    assert remains({**environ, **named}) == []


def test_what_a_node_keeps_of_its_fleet_goes_and_the_fleets_own_keys_stay(tmp_path: Path) -> None:
    state, others = tmp_path / "state", tmp_path / "others"
    prepare(state)
    membership_file(state).write_text("{}")
    keep_intent(state, Intent(fleet="f", node="n", generation=1))
    Contact(state, clock=count(step=1000).__next__).note_contact()
    purge(state, tmp_path / "memory", others)
    assert not state.exists()
    prepare(state)
    open_fleet(fleet_directory(state), now())
    with pytest.raises(Failure) as refused:
        purge(state, tmp_path / "memory", others)
    assert "fleet in it has the authority and the keys of a fleet" in str(refused.value)
    assert [each.name for each in state.iterdir()] == ["fleet"]
