"""`down --purge` where a simulated pod does not end."""

import json
import os
from pathlib import Path

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
