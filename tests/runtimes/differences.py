"""Where a runtime differs from containerd: each difference in a sentence, with the tests that cannot hold.

A test of the suite is left out on a runtime only by being named here; `docs/runtimes.md` shows the tables.
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
"""What stands between these lines of the document, which name a table, is written by `test_differences.py`."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same.

    The tests about it are named as `file.py::test`, or `file.py::test[...parameters...]` with the shell's `*` in it.
    """

    what: str
    sentence: str
    tests: tuple[str, ...] = ()
    without_root: bool = False
    """Only where the runtime is not root's."""


_EMBEDDED = (
    Difference(
        "processes",
        "There are no PID namespaces: a container sees the machine's processes, and its own is not number 1.",
        (
            "test_start.py::test_an_ephemeral_container_sees_the_processes_of_its_target_as_its_own",
            "test_identity.py::test_a_pod_shares_the_namespaces_that_it_says",
        ),
    ),
    Difference(
        "images",
        "There is no registry: any well-formed name can be pulled at once, and stands for the machine's own programs, "
        "unless an image was loaded under that name.",
        (
            "test_containers.py::test_a_missing_image_is_asked_for_again_after_a_back_off",
            "test_debug.py::test_an_image_that_cannot_be_had_is_asked_for_again_after_a_back_off",
        ),
    ),
    Difference(
        "an image's user",
        "An image that was not loaded names no user: containers run as the user who runs the runtime.",
        (
            "test_containers.py::test_an_image_says_who_runs_it_and_so_in_which_groups_besides",
            "test_identity.py::test_a_container_that_must_not_run_as_root_is_told_why_it_does_not_run",
            "test_identity.py::test_a_pods_groups_are_only_its_own_where_it_says_strict",
        ),
    ),
    Difference(
        "an image's user",
        "That user is not root, so a container that must not run as root may run.",
        ("test_containers.py::test_a_container_that_must_not_run_as_root_does_not",),
        without_root=True,
    ),
    Difference(
        "users and groups",
        "Containers run as the user who runs the runtime; another user or group is refused, and so is an fsGroup.",
        (
            "test_containers.py::test_the_environment_and_the_identity_are_what_the_pod_says",
            "test_volumes.py::test_a_pod_sees_eight_volumes_of_each_kind_and_what_becomes_of_them",
        ),
        without_root=True,
    ),
    Difference(
        "isolation",
        "A container has its own files (a private layer over the machine's), /tmp, mounts and host name, and shares "
        "everything else. Whatever needs more isolation is refused: host ports without the host's network, "
        "sysctls, seccomp profiles of the node, AppArmor and SELinux, devices, user namespaces. The seccomp profile "
        "RuntimeDefault is not applied, and the event FieldNotApplied says so.",
        (
            "test_identity.py::test_each_container_has_the_powers_that_its_security_context_gives_it",
            "test_identity.py::test_a_pod_has_the_kernel_parameters_that_it_asks_for",
        ),
    ),
    Difference(
        "mount propagation",
        "Only private mounts are supported; any other propagation is refused.",
        ("test_names.py::test_a_mount_made_later_on_the_node_reaches_a_container_that_asked_for_it",),
    ),
    Difference(
        "port-forward",
        "Connects to the pod's own address, else to localhost, which is the machine's.",
    ),
    Difference("resize", "Limits of a container that has ended are refused; containerd accepts them."),
    Difference(
        "restarts of the runtime",
        "The exit code of a container that ended while the runtime was down is kept, as in 1.6; 2.4 reports 255.",
    ),
    Difference(
        "CNI",
        "A pod gets no network, only its own address in 127.0.0.0/8, and nothing can delay that.",
        (
            "test_faults_runtime.py::test_the_runtime_dies_in_a_start[*CNI*]",
            "test_faults_runtime.py::test_runtime_and_worker_die_together_in_a_start",
            "test_faults_runtime.py::test_the_runtime_dies_in_a_deletion[*cni-del*]",
            "test_faults_runtime.py::test_a_sandbox_that_cannot_be_made_is_made_when_it_can[*cni-add*]",
            "test_faults_runtime.py::test_a_pod_deleted_in_the_middle_of_its_start_leaves_nothing[*CNI*]",
            "test_faults_worker.py::test_killed_in_a_start[*CNI*]",
            "test_faults_worker.py::test_killed_while_what_holds_up_the_start_outlasts_the_next_workers_boot",
            "test_faults_worker.py::test_killed_in_a_deletion[*cni-del*]",
        ),
    ),
    Difference(
        "runc",
        "A supervisor creates, starts and kills the process. There is no other program that could hang or fail: tests "
        "delay the equivalent of `runc create`; the equivalents of the other calls are part of the same step.",
        (
            "test_faults_runtime.py::test_the_runtime_dies_in_a_start[*runc starts*]",
            "test_faults_runtime.py::test_the_runtime_dies_while_runc_makes_the_first_container[*runc-start*]",
            "test_faults_runtime.py::test_the_runtime_dies_in_a_deletion[*runc-kill*]",
            "test_faults_runtime.py::test_a_sandbox_that_cannot_be_made_is_made_when_it_can[*runc-create*]",
            "test_faults_runtime.py::test_a_container_that_cannot_be_started_is_started_when_it_can",
            "test_faults_runtime.py::test_a_pod_deleted_in_the_middle_of_its_start_leaves_nothing[*runc starts*]",
            "test_faults_worker.py::test_killed_in_a_start[*runc starts*]",
            "test_faults_worker.py::test_killed_while_runc_makes_the_first_container[*runc-start*]",
            "test_faults_worker.py::test_killed_in_a_deletion[*runc-kill*]",
            "test_faults_worker.py::test_killed_in_a_deletion[*runc-delete*]",
        ),
    ),
)

_CRIO = (
    Difference(
        "a command that is not there",
        "It is noticed when the container is created, not when it is started. So no container has failed; the pod "
        "waits with CreateContainerError and retries, whatever its restart policy.",
        (
            "test_restarts.py::test_a_command_that_is_not_there_fails_a_pod_that_does_not_restart",
            "test_debug.py::test_what_does_not_start_says_why_and_harms_nothing",
        ),
    ),
    Difference(
        "signals",
        "It does not know real-time signals relative to SIGRTMIN or SIGRTMAX, so these are refused.",
    ),
    Difference(
        "labels",
        "It adds the Kubernetes labels to a sandbox by itself, so no sandbox lacks its pod's name.",
        ("test_orphans.py::test_a_lost_database_kills_nobody_and_what_runs_is_adopted_or_pruned",),
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
        ("test_identity.py::test_each_container_has_the_powers_that_its_security_context_gives_it",),
    ),
    Difference(
        "host name",
        "A pod with the host's network has a UTS namespace of its own all the same, with the node's name: CRI-O makes "
        "one for each pod.",
    ),
    Difference(
        "restarts of the runtime",
        "Afterwards a container's image is told by its id, no longer by its digest, and its creation some microseconds "
        "later.",
        ("test_faults_runtime.py::test_a_restart_of_the_runtime_restarts_nothing",),
    ),
    Difference("small limits", "With runc, a pod with a memory limit below 12 MiB gets no sandbox by default."),
)

DIFFERENCES: Mapping[str, tuple[Difference, ...]] = {"embedded": _EMBEDDED, "crio": _CRIO}
"""By what the suite calls the runtime."""


def apply(items: Iterable[pytest.Item]) -> None:
    """Skip, of the tests collected, those that are listed as different on the runtime that they would run on."""
    for item in items:
        difference = difference_of(item.nodeid, selection.runtime_of(item))
        if difference is not None:
            item.add_marker(pytest.mark.skip(reason=f"{difference.what}: {difference.sentence}"))


def difference_of(test: str, runtime: str, *, root: bool = os.geteuid() == 0) -> Difference | None:
    """The difference that a test's id, with its parameters, is about; None where it holds on this runtime."""
    for difference in DIFFERENCES.get(runtime, ()):
        if not (difference.without_root and root) and any(fits(test, pattern) for pattern in difference.tests):
            return difference
    return None


def fits(test: str, pattern: str) -> bool:
    """Say whether a test's id is meant by a pattern; one without parameters means all of them."""
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
    """The tests that run on every runtime as a Markdown table: a whole file, or those of its tests, and the reason."""
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
