"""Bugs in the CRI client, its configurations, the node, storage drivers, the embedded runtime and streams."""

from qa.planted.plant import Plant

CRI = "syncpod/cri"
TRANSLATION = "syncpod/translation"
NODE = "syncpod/node"
CSI = "syncpod/csi"
STREAMING = "syncpod/streaming"
RUNTIME = "syncpod/runtime"

BUGS = (
    Plant(
        name="busy-volume-forgotten",
        room=CSI,
        file="syncpod/csi/driver.py",
        before="if absent_is_fine and error.code() is grpc.StatusCode.NOT_FOUND:",
        after="if absent_is_fine:",
        harm="A volume that its driver cannot unmount yet counts as unmounted, and stays mounted for ever.",
        tests=("tests/kubernetes/test_storage_drivers.py",),
    ),
    Plant(
        name="half-a-secret-spoken",
        room="syncpod/redaction",
        file="syncpod/redaction.py",
        before="end = max(end, at + whole)",
        after="end = end or at + whole",
        harm="Where one Secret begins another, the rest of the longer one stands in an error.",
        tests=("tests/test_redaction.py",),
    ),
    Plant(
        name="credentials-to-another-port",
        room=CRI,
        file="syncpod/cri/keyring.py",
        before="        wanted_port == found_port",
        after="        bool(wanted_labels)",
        harm="A registry's password is sent to whatever listens on another port of its host.",
        tests=("tests/node/test_keyring.py",),
    ),
    Plant(
        name="stop-cut-off-at-two-minutes",
        room=CRI,
        file="syncpod/cri/client.py",
        before="timeout = self._timeout + seconds",
        after="timeout = self._timeout",
        harm="A stop with a grace of more than two minutes fails, and is begun again and again.",
        tests=("tests/cri/test_client.py", "tests/cri/test_client_calls.py"),
    ),
    Plant(
        name="escalation-unless-allowed",
        room=TRANSLATION,
        file="syncpod/translation/security.py",
        before="no_new_privs=security.allow_privilege_escalation is False",
        after="no_new_privs=not security.allow_privilege_escalation",
        harm="sudo and ping fail in every container that says nothing of privilege escalation.",
        tests=("tests/translation/test_security.py",),
    ),
    Plant(
        name="secrets-may-be-written",
        room=TRANSLATION,
        file="syncpod/translation/mounts.py",
        before="readonly=mount.read_only or (is_ours and volume.empty_dir is None)",
        after="readonly=mount.read_only",
        harm="A container can change the Secret that is shown to all others of its pod.",
        tests=("tests/translation/test_mounts.py",),
    ),
    Plant(
        name="any-start-mark-withdrawn",
        room=NODE,
        file="syncpod/node/start_marks.py",
        before="if mark is not None and mark.id == container_id:",
        after="if mark is not None:",
        harm="Another container of the pod is run twice, since the note of its start is taken away.",
        tests=("tests/node/test_start_marks.py",),
    ),
    Plant(
        name="others-pods-are-listed",
        room=NODE,
        file="syncpod/node/reader.py",
        before="selection = {names.NODE_LABEL: self._owner, **labels}",
        after="selection = dict(labels) or {names.NODE_LABEL: self._owner}",
        harm="A container that another node's agent made for the same UID is taken for the pod's own, and killed.",
        tests=("tests/node/test_reader.py",),
    ),
    Plant(
        name="any-secret-of-that-name",
        room=NODE,
        file="syncpod/node/pull_records.py",
        before="return same_words or shown.coordinates == known.coordinates",
        after="return same_words or shown.name == known.name",
        harm="A private image on the node runs for whoever names a Secret as its owner did.",
        tests=("tests/node/test_pull_records.py",),
    ),
    Plant(
        name="stream-ends-before-its-last-bytes",
        room=STREAMING,
        file="syncpod/streaming/spdy_frames.py",
        before="return Data(stream_id, piece, fin and not remaining)",
        after="return Data(stream_id, piece, fin)",
        harm="The end of a large answer through port-forward is cut off.",
        tests=("tests/streaming",),
    ),
    Plant(
        name="links-above-the-root",
        room=RUNTIME,
        file="syncpod/runtime/images/unpacking.py",
        before="real = real if real == root else real.parent",
        after="real = real.parent",
        harm="A layer of an image writes anywhere on the machine, by a symlink to ../../..",
        tests=("tests/runtime/test_load.py",),
    ),
    Plant(
        name="ticket-used-twice",
        room=RUNTIME,
        file="syncpod/runtime/streaming/tickets.py",
        before="self._tickets.pop(token, None)",
        after="self._tickets.get(token)",
        harm="Whoever has seen the URL of an exec can run it again within a minute.",
        tests=("tests/runtime/test_streaming_requests.py", "tests/runtime/test_server_streams.py"),
    ),
)
