"""Bugs in the command, in what every client shares, in the keys, in the settings and in the worker's wiring."""

from tests.planted.plant import Plant

CLI = "syncpod/cli"
TEMPORAL = "syncpod/temporal"

BUGS = (
    Plant(
        name="another-process-ended",
        room=CLI,
        file="syncpod/cli/machine/processes.py",
        before="        if not is_running(process) or not _is_this_users(process.pid):",
        after="        if identify(process.pid) is None:",
        harm="`syncpod down` ends a stranger's process that has been given the worker's old number.",
        tests=("tests/cli/test_processes.py",),
    ),
    Plant(
        name="mark-goes-first",
        room=CLI,
        file="syncpod/cli/machine/purge.py",
        before="names = [*sorted(OURS - {MARK}), MARK]",
        after="names = [MARK, *sorted(OURS - {MARK})]",
        harm="A purge that was interrupted can never be finished: the directory is no longer known as ours.",
        tests=("tests/cli/test_runtime_choice.py",),
    ),
    Plant(
        name="drained-though-not-selected",
        room=CLI,
        file="syncpod/cli/commands/drain.py",
        before="pods = [one for one in chosen if not _is_static(one)]",
        after="pods = [one for one in there if not _is_static(one)]",
        harm="`syncpod drain --pod-selector` ends the pods that were not selected, too.",
        tests=("tests/cli/test_drain.py",),
    ),
    Plant(
        name="pending-resizes-never-fall",
        room=TEMPORAL,
        file="syncpod/temporal/resize_metrics.py",
        before="_pending.pop(workflow_id, None)",
        after="_pending.get(workflow_id)",
        harm="The gauge of pods that wait to be resized never falls.",
        tests=("tests/workflows/test_resizes.py",),
    ),
    Plant(
        name="numbers-follow-the-clock",
        room="syncpod/signing",
        file="syncpod/signing/keys.py",
        before="number = max(time.time_ns() // 1000, (int(said) if said.isdigit() else 0) + 1)",
        after="number = time.time_ns() // 1000",
        harm="After the clock was set back, pods refuse their owner's commands as older than earlier ones.",
        tests=("tests/signing/test_keys.py",),
    ),
    Plant(
        name="last-part-of-a-duration",
        room="syncpod/go_durations",
        file="syncpod/go_durations.py",
        before="nanoseconds + _nanoseconds(part)",
        after="_nanoseconds(part)",
        harm="A setting of 1h30m is taken for 30 minutes.",
        tests=("tests/test_go_durations.py",),
    ),
    Plant(
        name="thresholds-may-be-equal",
        room="syncpod/settings",
        file="syncpod/settings/node.py",
        before="if found.low_threshold_percent >= found.high_threshold_percent:",
        after="if found.low_threshold_percent > found.high_threshold_percent:",
        harm="A node whose thresholds are equal removes and pulls images all the time.",
        tests=("tests/worker/test_node_settings.py",),
    ),
    Plant(
        name="general-endpoint-wins",
        room="syncpod/telemetry",
        file="syncpod/telemetry.py",
        before='return own or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ""',
        after='return environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or own or ""',
        harm="Traces go by the wrong protocol where they have an endpoint of their own.",
        tests=("tests/worker/test_telemetry.py",),
    ),
    Plant(
        name="no-pod-is-all-pods",
        room="syncpod/fault_points",
        file="syncpod/fault_points.py",
        before='if self._points.pod not in ("", pod):',
        after="if self._points.pod != pod:",
        harm="A test that names no pod finds no boundary at which its worker could die, and shows nothing.",
        tests=("tests/worker/test_fault_points.py",),
    ),
    Plant(
        name="rivals-not-waited-for",
        room="worker.py",
        file="worker.py",
        before="await refuse_rivals(client, task_queue, life)",
        after="refuse_rivals(client, task_queue, life)",
        harm="A worker serves a node that another machine's worker serves.",
        tests=("tests/e2e/test_faults_foreign.py",),
    ),
)
