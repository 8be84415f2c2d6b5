"""Bugs in what runs beside the worker, and in how containers are spoken to."""

from qa.planted.plant import Plant

AGENT = "syncpod/agent"
HANDLERS = "syncpod/handlers"

BUGS = (
    Plant(
        name="begun-and-not-told",
        room=AGENT,
        file="syncpod/agent/node_workflow/manifest_source.py",
        before="if message == self._told and not gone and not self._begun:",
        after="if message == self._told and not gone:",
        harm="A pod that was begun while the server failed, and whose manifest is gone since, runs for ever.",
        tests=("tests/agent/test_manifest_source.py",),
    ),
    Plant(
        name="owed-events-lost",
        room=AGENT,
        file="syncpod/agent/pleg.py",
        before="del pod.owed[:told]",
        after="pod.owed.clear()",
        harm="A pod is never told what it waits for, where that came while another signal was on its way.",
        tests=("tests/agent/test_pleg.py",),
    ),
    Plant(
        name="input-written-twice",
        room=AGENT,
        file="syncpod/agent/fleet/errands.py",
        before="stdin.write(data[self._taken - at :])",
        after="stdin.write(data)",
        harm="A command that a fleet runs on a node reads its input twice, where an answer was lost on the way.",
        tests=("tests/agent/test_fleet_errands.py",),
    ),
    Plant(
        name="any-certificate-of-the-fleet-commands",
        room=AGENT,
        file="syncpod/agent/fleet/endpoint.py",
        before='return is_commander(x509.load_der_x509_certificate(shown or b""), fleet)',
        after='return bool(x509.load_der_x509_certificate(shown or b""))',
        harm="A stolen node runs commands in the containers of every other node of its fleet that listens.",
        tests=("tests/gate/test_endpoint.py",),
    ),
    Plant(
        name="unreadable-is-gone",
        room=AGENT,
        file="syncpod/agent/pleg.py",
        before="if uid not in listed.pods and uid not in listed.failures and not _empty(pod.newest):",
        after="if uid not in listed.pods and not _empty(pod.newest):",
        harm="A pod that the runtime is slow to describe is taken for gone, and all of it is started a second time.",
        tests=("tests/agent/test_pleg.py",),
    ),
    Plant(
        name="newer-probe-result-dropped",
        room=AGENT,
        file="syncpod/agent/probing/outbox.py",
        before="if self._changes.get(key) is change:",
        after="if key in self._changes:",
        harm="A container that recovered while its failure was being told stays unready for ever.",
        tests=("tests/agent/test_outbox.py", "tests/agent/test_prober.py"),
    ),
    Plant(
        name="volumes-behind-for-good",
        room=AGENT,
        file="syncpod/agent/storage/volume_refresh.py",
        before="if changed or self._behind:",
        after="if changed:",
        harm="A volume that could not be written once keeps the old Secret until that changes again.",
        tests=("tests/agent/test_volume_refresh.py",),
    ),
    Plant(
        name="unknown-workflow-is-a-gone-one",
        room=AGENT,
        file="syncpod/agent/housekeeping/gone_pods.py",
        before='(standing == "unknown" and not in_runtime)',
        after='standing == "unknown"',
        harm="After the loss of the Temporal database the volumes of its pods are removed.",
        tests=("tests/agent/test_housekeeping.py",),
    ),
    Plant(
        name="redirect-to-anywhere",
        room=HANDLERS,
        file="syncpod/handlers/http_get.py",
        before="if url.hostname != first.hostname:",
        after="if url.scheme != first.scheme:",
        harm="A probe follows a container's redirect to any host that the node can reach.",
        tests=("tests/handlers/test_probe_handlers.py",),
    ),
)
