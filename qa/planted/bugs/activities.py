"""Bugs in the activities."""

from qa.planted.plant import Plant

ROOM = "activities"

BUGS = (
    Plant(
        name="hook-beside-the-grace",
        room=ROOM,
        file="activities/containers/ending.py",
        before="stop(target.id, target.timeout_seconds(attempt.waited_seconds))",
        after="stop(target.id, target.timeout_seconds(0))",
        harm="After its preStop hook a container has its whole grace again, and a pod takes twice its grace to end.",
        tests=("tests/activities/test_kill.py",),
    ),
    Plant(
        name="fences-of-an-earlier-life",
        room=ROOM,
        file="activities/node/fences.py",
        before="key = (ref.uid, ref.incarnation)",
        after='key = (ref.uid, "")',
        harm="A static pod that is made again has all its steps refused as stale.",
        tests=("tests/activities/test_fences.py",),
    ),
    Plant(
        name="cancellation-cuts-a-call-off",
        room=ROOM,
        file="activities/step.py",
        before="            attempt.interrupt()",
        after="            task.cancel()",
        harm="A cancellation cuts a call to the runtime off, and leaves behind what nobody knows of.",
        tests=("tests/activities/test_kill.py", "tests/activities/test_with_temporal.py"),
    ),
    Plant(
        name="start-mark-of-an-earlier-life",
        room=ROOM,
        file="activities/containers/noted_starts.py",
        before="mark is None or mark.incarnation != request.ref.incarnation or mark.restart < request.restart",
        after="mark is None or mark.restart < request.restart",
        harm="A static pod that is made again takes its earlier containers for its own, and never starts.",
        tests=("tests/activities/test_start_container.py",),
    ),
    Plant(
        name="secrets-are-not-withheld",
        room=ROOM,
        file="activities/containers/sources.py",
        before="            of_process.add(sources.secrets())",
        after="            sources.secrets()",
        harm="A runtime's error that quotes a Secret's value takes it into the workflow's history.",
        tests=("tests/activities/test_sources.py",),
    ),
    Plant(
        name="orphan-not-asked-for-again",
        room=ROOM,
        file="activities/between/orphans.py",
        before="if not await is_orphan():",
        after="if not is_orphan():",
        harm="A pod that is wanted again while it is looked at is killed as an orphan.",
        tests=("tests/activities/test_orphans.py", "tests/activities/test_collection.py"),
    ),
    Plant(
        name="orphan-without-a-tombstone",
        room=ROOM,
        file="activities/between/orphans.py",
        before="deleted=True",
        after="deleted=False",
        harm="A worker that dies after the kill of an orphan leaves its remains until orphans are looked for again.",
        tests=("tests/activities/test_orphans.py",),
    ),
    Plant(
        name="unknown-container-removed",
        room=ROOM,
        file="activities/pods/removal.py",
        before='if each.state in ("running", "unknown")]',
        after='if each.state == "running"]',
        harm="A container in the unknown state is removed while it may run, that is killed without a grace.",
        tests=("tests/activities/test_remove.py",),
    ),
)
