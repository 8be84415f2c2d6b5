"""The differences between runtimes and containerd: a sentence for each, and the tests that cannot pass because of it.

A test is skipped on a runtime only if it is named here; `docs/runtimes.md` shows the tables.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runtimes import selection
from tests.runtimes.collected import Collected

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "runtimes.md"
BEGIN, END = "<!-- {}: begin -->\n", "<!-- {}: end -->\n"
"""`test_differences.py` writes the text between these lines of the document, which name a table."""


@dataclass(frozen=True)
class Difference:
    """One difference.

    The tests about it are named as `file.py::test`, or `file.py::test[...parameters...]` with the shell's `*` in it.
    """

    what: str
    sentence: str
    tests: tuple[str, ...] = ()
    without_root: bool = False
    """Whether this holds only if the runtime does not run as root."""


_EMBEDDED = (
    Difference(
        "processes",
        "There are no PID namespaces: a container sees the machine's processes, and its own is not number 1.",
        (
            "test_start.py::test_an_ephemeral_container_sees_the_processes_of_its_target_as_its_own",
            "test_identity.py::test_a_pod_shares_the_requested_namespaces",
        ),
    ),
    Difference(
        "images",
        "There is no registry: any well-formed name can be pulled at once, and stands for the machine's own programs, "
        "unless an image was loaded under that name.",
        (
            "test_containers.py::test_a_missing_image_is_pulled_again_after_a_back_off",
            "test_debug.py::test_an_unavailable_debug_image_is_pulled_again_after_a_back_off",
        ),
    ),
    Difference(
        "an image's user",
        "An image that was not loaded names no user: containers run as the user who runs the runtime.",
        (
            "test_containers.py::test_the_images_user_determines_user_and_groups",
            "test_identity.py::test_a_run_as_non_root_violation_is_the_waiting_message",
            "test_identity.py::test_with_policy_strict_a_pod_has_only_its_own_groups",
        ),
    ),
    Difference(
        "an image's user",
        "That user is not root, so a container that must not run as root may run.",
        ("test_containers.py::test_a_container_with_run_as_non_root_does_not_run_as_root",),
        without_root=True,
    ),
    Difference(
        "users and groups",
        "Containers run as the user who runs the runtime, and write where that user may; another user or group is "
        "refused, and so is an fsGroup.",
        (
            "test_evictor.py::test_pod_usage_is_measured_on_every_runtime",
            "test_storage_limits.py::test_a_container_that_fills_its_writable_layer_is_evicted_on_every_runtime",
            "test_storage_limits.py::test_pods_over_their_storage_limits_are_evicted",
            "test_containers.py::test_environment_and_identity_match_the_pod_spec",
            "test_volumes.py::test_a_pod_sees_eight_volumes_of_each_kind_and_their_updates",
        ),
        without_root=True,
    ),
    Difference(
        "limits",
        "Where cgroups are closed to that user, limits are refused.",
        (
            "test_crash_points.py::test_a_worker_kill_at_any_runtime_call_loses_or_doubles_nothing",
            "test_resizes.py::test_limits_whose_sum_exceeds_64_bits_are_accepted",
        ),
        without_root=True,
    ),
    Difference(
        "capabilities",
        "None can be added, so `syncpod debug` asks for none (`--profile=baseline`).",
        ("test_debug.py::test_a_debug_container_sees_the_pod_and_its_exit_is_kept",),
        without_root=True,
    ),
    Difference(
        "isolation",
        "A container has its own files (a private layer over the machine's), /tmp, mounts and host name, and shares "
        "everything else. A pod that needs more isolation is refused: host ports without the host's network, "
        "sysctls, seccomp profiles of the node, AppArmor and SELinux, devices, user namespaces. The seccomp profile "
        "RuntimeDefault is not applied, and the event FieldNotApplied says so.",
        (
            "test_identity.py::test_each_container_has_the_privileges_of_its_security_context",
            "test_identity.py::test_a_pod_has_its_sysctls",
        ),
    ),
    Difference(
        "mount propagation",
        "Only private mounts are supported; any other propagation is refused.",
        ("test_names.py::test_a_later_mount_on_the_node_propagates_to_a_container_that_asked_for_it",),
    ),
    Difference(
        "port-forward",
        "Connects to the pod's own address, else to localhost, which is the machine's.",
    ),
    Difference("resize", "Limits of a container that has ended are refused; containerd accepts them."),
    Difference(
        "starts that are cut off",
        "If the caller of a start goes before it is answered, the container's own exit is kept; containerd lists a "
        "start that failed.",
        ("test_same_answers.py::test_the_runtimes_give_the_same_answers[*a_start_that_its_caller_gives_up*]",),
    ),
    Difference(
        "restarts of the runtime",
        "The exit code of a container that ended while the runtime was down is kept, as in 1.6; 2.4 reports 255.",
    ),
    Difference(
        "CNI",
        "A pod gets no network, only its own address in 127.0.0.0/8, and nothing can delay that.",
        (
            "test_faults_runtime.py::test_a_pod_starts_after_a_runtime_kill_during_its_start[*CNI*]",
            "test_faults_runtime.py::test_a_pod_starts_after_a_kill_of_runtime_and_worker_during_its_start",
            "test_faults_runtime.py::test_a_deletion_completes_after_a_runtime_kill[*cni-del*]",
            "test_faults_runtime.py::test_a_failing_sandbox_creation_is_retried_until_it_succeeds[*cni-add*]",
            "test_faults_runtime.py::test_a_pod_deleted_during_its_start_leaves_nothing[*CNI*]",
            "test_faults_worker.py::test_a_pod_starts_once_after_a_worker_kill_during_its_start[*CNI*]",
            "test_faults_worker.py::test_a_start_blocked_beyond_the_next_workers_boot_is_done_once",
            "test_faults_worker.py::test_a_deletion_completes_after_a_worker_kill[*cni-del*]",
        ),
    ),
    Difference(
        "runc",
        "A supervisor creates, starts and kills the process. There is no other program that could hang or fail: tests "
        "delay the equivalent of `runc create`; the equivalents of the other calls are part of the same step.",
        (
            "test_faults_runtime.py::test_a_pod_starts_after_a_runtime_kill_during_its_start[*runc starts*]",
            "test_faults_runtime.py::test_a_pod_starts_after_a_runtime_kill_while_runc_makes_the_first_container",
            "test_faults_runtime.py::test_a_deletion_completes_after_a_runtime_kill[*runc-kill*]",
            "test_faults_runtime.py::test_a_failing_sandbox_creation_is_retried_until_it_succeeds[*runc-create*]",
            "test_faults_runtime.py::test_a_failing_container_start_is_retried_until_it_succeeds",
            "test_faults_runtime.py::test_a_pod_deleted_during_its_start_leaves_nothing[*runc starts*]",
            "test_faults_worker.py::test_a_pod_starts_once_after_a_worker_kill_during_its_start[*runc starts*]",
            "test_faults_worker.py::test_a_container_is_not_doubled_by_a_worker_kill_while_runc_makes_it",
            "test_faults_worker.py::test_an_unregistered_process_counts_as_run_after_a_worker_kill",
            "test_faults_worker.py::test_an_unregistered_process_that_has_ended_is_reported_with_its_exit_code",
            "test_faults_worker.py::test_a_deletion_completes_after_a_worker_kill[*runc-kill*]",
            "test_faults_worker.py::test_a_deletion_completes_after_a_worker_kill[*runc-delete*]",
        ),
    ),
)

_CRIO = (
    Difference(
        "a command that is not there",
        "It is noticed when the container is created, not when it is started. So no container has failed; the pod "
        "waits with CreateContainerError and retries, regardless of its restart policy.",
        (
            "test_restarts.py::test_a_missing_command_fails_a_restart_never_pod",
            "test_debug.py::test_a_debug_container_that_cannot_start_is_reported_without_harm_to_the_pod",
        ),
    ),
    Difference(
        "signals",
        "It does not know real-time signals relative to SIGRTMIN or SIGRTMAX, so these are refused.",
    ),
    Difference(
        "labels",
        "It adds the Kubernetes labels to a sandbox by itself, so no sandbox lacks its pod's name.",
        ("test_orphans.py::test_a_lost_database_kills_no_pod_and_running_pods_can_be_adopted_or_pruned",),
    ),
    Difference(
        "names that are taken",
        "If a sandbox or container of that name exists, a repeated call returns it. While it is being created, a "
        "repeated call waits until its own timeout (4 minutes for a sandbox), and so may a pod whose worker died then.",
    ),
    Difference(
        "stopping",
        "Removing a running container, or stopping a running sandbox, gives it the timeout of the call as its grace "
        "period. syncpod does that only if a worker died between creating a container and starting it.",
    ),
    Difference(
        "commands in a container that is being stopped",
        "It refuses them. So a readiness probe by a command has no result any more once its pod ends, and the pod "
        "stays as ready as it was.",
        ("test_probes.py::test_a_command_goes_on_to_be_asked_for_readiness_while_its_pod_ends",),
    ),
    Difference(
        "host ports",
        "They are reachable at the machine's other addresses, but not at 127.0.0.1, which its nftables rules exclude.",
    ),
    Difference(
        "the pause process",
        "A sandbox has one only where its containers share its processes (`shareProcessNamespace`): any other it drops "
        "(`drop_infra_ctr`), and then nothing of the sandbox can die.",
    ),
    Difference(
        "logs",
        "The directory of a container's log must be there, since conmon makes only the file: a kubelet makes it, so "
        "syncpod does.",
    ),
    Difference(
        "capabilities",
        "A privileged container is given every capability, also those that the machine withholds from the runtime "
        "itself: there it does not start.",
        ("test_identity.py::test_each_container_has_the_privileges_of_its_security_context",),
    ),
    Difference(
        "host name",
        "A pod with the host's network has a UTS namespace of its own all the same, with the node's name: CRI-O makes "
        "one for each pod.",
    ),
    Difference(
        "restarts of the runtime",
        "Afterwards a container's image is shown by its id, no longer by its digest, and its creation some "
        "microseconds later.",
        ("test_faults_runtime.py::test_a_runtime_restart_restarts_no_container",),
    ),
    Difference("small limits", "With runc, a pod with a memory limit below 12 MiB gets no sandbox by default."),
)

DIFFERENCES: Mapping[str, tuple[Difference, ...]] = {"embedded": _EMBEDDED, "crio": _CRIO}
"""The differences by the runtime's name in the tests."""


def apply(items: Iterable[pytest.Item]) -> None:
    """Skip the collected tests that are listed as different on their runtime."""
    for item in items:
        difference = difference_of(item.nodeid, selection.runtime_of(item))
        if difference is not None:
            item.add_marker(pytest.mark.skip(reason=f"{difference.what}: {difference.sentence}"))


def difference_of(test: str, runtime: str, *, root: bool = os.geteuid() == 0) -> Difference | None:
    """The difference for a test's id, with its parameters; None if the test can pass on this runtime."""
    for difference in DIFFERENCES.get(runtime, ()):
        if not (difference.without_root and root) and any(fits(test, pattern) for pattern in difference.tests):
            return difference
    return None


def fits(test: str, pattern: str) -> bool:
    """Return whether a test's id matches a pattern; a pattern without parameters matches all parameters."""
    # Brackets, which the shell would take for a choice of characters, mean themselves.
    test, pattern = (text.translate({ord("["): "(", ord("]"): ")"}) for text in (test, pattern))
    return fnmatch.fnmatchcase(test, f"*/{pattern}") or fnmatch.fnmatchcase(test, f"*/{pattern}(*)")


def rendered(runtime: str) -> str:
    """A runtime's table as Markdown."""
    rows = [
        f"| {each.what}{' (without root)' if each.without_root else ''} | {each.sentence} | {_named(each.tests)} |\n"
        for each in DIFFERENCES[runtime]
    ]
    return "".join([f"| | {runtime} | tests left out |\n", "|---|---|---|\n", *rows])


def on_every_runtime(suite: Iterable[Collected]) -> str:
    """The tests that run on every runtime as a Markdown table: a whole file or some of its tests, and the reason."""
    reasons: dict[str, dict[str, set[str]]] = {}
    for each in suite:
        reasons.setdefault(each.file, {}).setdefault(each.reason, set()).add(each.name)
    rows = [
        f"| {_named([file] if len(by_reason) == 1 else [f'{file}::{name}' for name in sorted(names)])} | {reason} |\n"
        for file, by_reason in sorted(reasons.items())
        for reason, names in by_reason.items()
        if reason
    ]
    return "".join(["| tests | why |\n", "|---|---|\n", *rows])


def _named(tests: Iterable[str]) -> str:
    return "<br>".join(f"`{test.replace('|', '&#124;')}`" for test in tests) or "–"
