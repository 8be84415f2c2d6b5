"""Bugs in the pod's model, in the pure decisions, in Temporal's messages and in the fleet."""

from qa.planted.plant import Plant

POD = "syncpod/pod"
LIFECYCLE = "syncpod/lifecycle"
MESSAGES = "syncpod/messages"
FLEET = "syncpod/fleet"

BUGS = (
    Plant(
        name="back-off-without-end",
        room=LIFECYCLE,
        file="syncpod/lifecycle/backoff.py",
        before="return min(settings.initial * float(settings.factor) ** entry.grown, settings.maximum)",
        after="return settings.initial * float(settings.factor) ** entry.grown",
        harm="A crash-looping container waits for hours, and then for days, instead of five minutes.",
        tests=("tests/lifecycle/test_backoff.py",),
    ),
    Plant(
        name="listings-without-their-life",
        room=LIFECYCLE,
        file="syncpod/lifecycle/observed.py",
        before="return (self.boot, self.counter) < (other.boot, other.counter)",
        after="return self.counter < other.counter",
        harm="After a worker's restart what it sees is taken for old, and a pod stands still.",
        tests=("tests/lifecycle/test_observed.py",),
    ),
    Plant(
        name="sidecars-end-in-their-order",
        room=LIFECYCLE,
        file="syncpod/lifecycle/termination.py",
        before="for container in reversed(spec.init_containers):",
        after="for container in spec.init_containers:",
        harm="The first sidecar, on which the others depend, is ended before them.",
        tests=("tests/lifecycle/test_termination.py",),
    ),
    Plant(
        name="orphans-by-a-second",
        room=LIFECYCLE,
        file="syncpod/lifecycle/orphans.py",
        before="made_at - since > CLOCK_MARGIN",
        after="made_at > since",
        harm="Pods of a Temporal database that was lost are killed where the clocks differ a little.",
        tests=("tests/lifecycle/test_orphans.py",),
    ),
    Plant(
        name="probe-failures-add-up",
        room=LIFECYCLE,
        file="syncpod/lifecycle/probing.py",
        before="run = state.run + 1 if state.last == answer else 1",
        after="run = state.run + 1",
        harm="A container is killed for failures of its probe that were hours apart.",
        tests=("tests/lifecycle/test_probing.py",),
    ),
    Plant(
        name="replaced-while-it-ends",
        room=FLEET,
        file="syncpod/fleet/presence.py",
        before="return member.unknown_since + rule.after + stopping",
        after="return member.unknown_since + rule.after",
        harm="A pod that its lost node is to stop is replaced while it may still be ending there: it runs twice.",
        tests=("tests/fleet/test_rollout.py",),
    ),
    Plant(
        name="a-pod-beside-itself",
        room=FLEET,
        file="syncpod/fleet/bare_pods.py",
        before="max_unavailable=1, recreate=True,",
        after="max_unavailable=1, recreate=False,",
        harm="A pod of a drained node is made anew while it still ends there: it runs twice.",
        tests=("tests/fleet/test_bare_pods.py",),
    ),
    Plant(
        name="placed-on-a-lost-node",
        room=FLEET,
        file="syncpod/fleet/placement.py",
        before='if node.presence == "Unknown":',
        after='if node.presence == "NotReady":',
        harm="A pod that tolerates everything is placed on a node that nobody can tell, and never starts.",
        tests=("tests/fleet/test_placement.py",),
    ),
    Plant(
        name="aliases-count-once",
        room=POD,
        file="syncpod/pod/yaml_stream.py",
        before="self._aliased += size",
        after="self._aliased += 1",
        harm="A manifest of a few lines, whose aliases stand for millions of values, takes the command's memory.",
        tests=("tests/pod/test_hostile_documents.py", "tests/pod/test_documents.py"),
    ),
    Plant(
        name="another-hash",
        room=POD,
        file="syncpod/pod/containers.py",
        before="total = (total ^ byte) * _FNV_PRIME & 0xFFFFFFFF",
        after="total = (total * _FNV_PRIME & 0xFFFFFFFF) ^ byte",
        harm="An upgrade restarts every container, since none seems to have the definition it was made with.",
        tests=("tests/pod/test_hashing.py",),
    ),
    Plant(
        name="id-too-long-by-one",
        room=MESSAGES,
        file="syncpod/messages/identity.py",
        before="head = whole.encode()[: WORKFLOW_ID_LIMIT - len(digest) - 1]",
        after="head = whole.encode()[: WORKFLOW_ID_LIMIT - len(digest)]",
        harm="A pod with the longest names cannot be started: the server refuses its workflow's id.",
        tests=("tests/messages",),
    ),
    Plant(
        name="unknown-fields-refused",
        room=MESSAGES,
        file="syncpod/messages/identity.py",
        before='extra="ignore",',
        after='extra="forbid",',
        harm="After an upgrade and the way back every signal of the newer version is refused.",
        tests=("tests/workflows/test_versions.py",),
    ),
)
