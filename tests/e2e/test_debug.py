"""Ephemeral containers by `syncpod debug` on real runtimes.

Holds: An ephemeral container harms nobody.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import time
import uuid

from tests.e2e.clients import machine_of, syncpod
from tests.e2e.engine import RUNS, EngineNode, LivePod, Pods, conditions_of, shell, status_of
from tests.runtimes.images import BUSYBOX

ABSENT = "syncpod.invalid/no/such:1"
"""An image on a registry whose name resolves nowhere."""
SYS_PTRACE = 1 << 19
LOOK = "echo out $WHO; echo err >&2; grep CapEff /proc/self/status; cat /proc/[0-9]*/cmdline | tr '\\0' ' '; exit 7"


async def test_a_debug_container_sees_the_pod_and_its_exit_is_kept(pods: Pods, engine: EngineNode) -> None:
    """Row 55: it shares its target's processes, is never restarted, and leaves the pod's own containers alone."""
    pod = await pods.apply("debugged", shell("app"), restartPolicy="Always")
    await pod.running()
    before = (await pod.instance("app")).id
    flags = ("--image", BUSYBOX, "-c", "look", "--target", "app", "--env", "WHO=me", "--attach")
    looked = await syncpod(engine, "debug", pod.name, *flags, "--", "sh", "-c", LOOK)
    assert looked.code == 7, looked.err
    written, powers, processes = looked.out.split("\n", 2)
    assert written == "out me" and "err\n" in looked.err and 'Targeting container "app"' in looked.err
    assert int(powers.split()[1], 16) & SYS_PTRACE
    assert RUNS in processes

    seen = await pod.until(lambda pod: "terminated" in status_of(pod, "look").get("state", {}))
    ended = status_of(seen, "look")
    assert (ended["state"]["terminated"]["exitCode"], ended["restartCount"]) == (7, 0)
    assert (seen["status"]["phase"], conditions_of(seen)["Ready"]) == ("Running", ("True",))
    assert ((await pod.instance("app")).id, len(await pod.containers("look"))) == (before, 1)

    described, logged, planned, shown = await asyncio.gather(
        syncpod(engine, "describe", "pod", pod.name),
        syncpod(engine, "logs", pod.name, "-c", "look"),
        syncpod(engine, "plan", pod.name),
        syncpod(engine, "get", "pod", pod.name, "-o", "json"),
    )
    told = described.out.partition("Ephemeral Containers:\n")[2].partition("\nConditions:")[0]
    assert told.startswith("  look:\n") and "Exit Code:" in told and "Target Container:" in told, described.out
    assert {"out me", "err"} <= set(logged.out.splitlines())  # the runtime logs both in order of arrival
    assert planned.out == f"pod/{pod.name}: unchanged, nothing to do\n"
    (spec,) = json.loads(shown.out)["spec"]["ephemeralContainers"]
    assert (spec["name"], spec["targetContainerName"]) == ("look", "app")


async def test_a_debug_session_ends_with_its_input_and_passes_on_its_exit_code(pods: Pods, engine: EngineNode) -> None:
    """Row 55: attached to piped input, and to a terminal."""
    pod = await pods.apply("session", shell("app"))
    await pod.running()
    script = "echo hello; echo $((6 * 7)) >&2; exit 3\n"
    piped = await syncpod(engine, "debug", pod.name, "-i", "--image", BUSYBOX, "--", "sh", stdin=script)
    assert (piped.code, piped.out) == (3, "hello\n"), piped.err
    first, *_ = piped.err.splitlines()
    assert first.startswith("Defaulting debug container name to debugger-") and "42" in piped.err
    counted = await syncpod(engine, "debug", pod.name, "-qi", "--image", BUSYBOX, "--", "wc", "-c", stdin="x" * 100_000)
    assert (counted.code, counted.out.strip(), counted.err) == (0, "100000", "")

    code, seen = await asyncio.to_thread(type_into_a_shell, engine, pod)
    assert code == 5 and b"/dev/pts/" in seen, seen
    ended = await pod.until(
        lambda pod: all("terminated" in each["state"] for each in pod["status"]["ephemeralContainerStatuses"])
    )
    statuses = ended["status"]["ephemeralContainerStatuses"]
    assert sorted(each["state"]["terminated"]["exitCode"] for each in statuses) == [0, 3, 5]
    assert {each["restartCount"] for each in statuses} == {0}


def type_into_a_shell(engine: EngineNode, pod: LivePod) -> tuple[int, bytes]:
    """Debug with a terminal, and type `tty; exit 5` at the prompt. Returns the exit code and all output."""
    command = [sys.executable, "-m", "syncpod.cli.main", "debug", "-it", pod.name, "--image", BUSYBOX, "--", "sh"]
    ours, theirs = pty.openpty()
    debug = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=machine_of(engine), start_new_session=True
    )
    os.close(theirs)
    seen = b""

    def until(*signs: bytes) -> None:
        nonlocal seen
        deadline = time.monotonic() + 60
        while not any(sign in seen for sign in signs):
            assert select.select([ours], [], [], max(0, deadline - time.monotonic()))[0], seen
            seen += os.read(ours, 4096)

    try:
        until(b"try pressing enter")
        os.write(ours, b"\r")
        until(b"# ", b"$ ")
        os.write(ours, b"tty; exit 5\r")
        until(b"/dev/pts/")
        return debug.wait(60), seen
    finally:
        debug.kill()
        debug.wait()
        os.close(ours)


async def test_a_debug_container_that_cannot_start_is_reported_without_harm_to_the_pod(
    pods: Pods, engine: EngineNode
) -> None:
    """Row 55: without its image, program or target it does not start; the pod stays ready, and ends normally."""
    pod = await pods.apply("harmless", shell("app"))
    await pod.running()
    never, missing = await asyncio.gather(
        syncpod(
            engine, "debug", pod.name, "-q", "--attach", "-c", "never",
            "--image", ABSENT, "--image-pull-policy", "Never",
        ),
        syncpod(
            engine, "debug", pod.name, "-q", "--attach", "-c", "missing",
            "--image", BUSYBOX, "--", "frobnicate",
        ),
    )  # fmt: skip
    assert (never.code, never.out) == (1, "")
    assert 'container "never" does not start: ErrImageNeverPull: ' in never.err and ABSENT in never.err
    assert missing.code in (127, 128) and "frobnicate" in missing.err, missing

    seen = await pod.until(lambda pod: "terminated" in status_of(pod, "missing").get("state", {}))
    assert status_of(seen, "missing")["state"]["terminated"]["exitCode"] == missing.code
    assert status_of(seen, "never")["state"]["waiting"]["reason"] == "ErrImageNeverPull"
    assert (seen["status"]["phase"], conditions_of(seen)["Ready"]) == ("Running", ("True",))
    assert [status_of(seen, name)["restartCount"] for name in ("app", "never", "missing")] == [0, 0, 0]
    (hold,) = (await pod.handle.query("plan"))["holds"]
    assert (hold["subject"], hold["reason"]) == ("never", "ErrImageNeverPull")
    final = await pod.delete()
    assert status_of(final, "app")["state"]["terminated"]["exitCode"] == 0


async def test_an_unavailable_debug_image_is_pulled_again_after_a_back_off(pods: Pods, engine: EngineNode) -> None:
    """Row 55: ErrImagePull, then ImagePullBackOff."""
    pod = await pods.apply("absent", shell("app"))
    await pod.running()
    failed = await syncpod(engine, "debug", pod.name, "-q", "--attach", "-c", "look", "--image", ABSENT)
    assert failed.code == 1
    assert 'container "look" does not start: ' in failed.err and ABSENT in failed.err, failed.err
    seen = await pod.until(
        lambda pod: status_of(pod, "look").get("state", {}).get("waiting", {}).get("reason") == "ImagePullBackOff"
    )
    assert (seen["status"]["phase"], conditions_of(seen)["Ready"]) == ("Running", ("True",))
    assert [event["container"] for event in await pod.events("BackOff")] == ["look"]


async def test_a_debug_container_may_start_before_initialization_but_not_before_its_target(
    pods: Pods, engine: EngineNode
) -> None:
    """Row 55: one can look into a pod that hangs in its init container; only a target must exist."""
    pod = await pods.apply("hanging", shell("app"), initContainers=[shell("setup", "sleep 1000")])
    await pod.until(lambda pod: "running" in status_of(pod, "setup").get("state", {}))
    early, targeted = await asyncio.gather(
        syncpod(engine, "debug", pod.name, "-q", "--attach", "-c", "early", "--image", BUSYBOX, "--", "echo", "in"),
        syncpod(engine, "debug", pod.name, "-q", "--attach", "-c", "late", "--image", BUSYBOX, "--target", "app"),
    )
    assert (early.code, early.out) == (0, "in\n"), early.err
    assert targeted.code == 1
    why = 'container "late" does not start: CreateContainerConfigError: unable to find target container app'
    assert why in targeted.err
    assert (await pod.get())["status"]["phase"] == "Pending"


async def test_a_debug_copy_runs_while_the_pod_is_left_alone(pods: Pods, engine: EngineNode) -> None:
    """Row 55: `--copy-to`: the copy's containers see one another's processes."""
    pod = await pods.apply("original", shell("app"), restartPolicy="Never")
    before = await pod.running()
    copy = pods.know({"metadata": {"name": f"{pod.name}-copy"}})
    script = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; exit 4"
    flags = ("-q", "--attach", "-c", "look", "--image", BUSYBOX, "--copy-to", copy.name)
    looked = await syncpod(engine, "debug", pod.name, *flags, "--", "sh", "-c", script)
    assert looked.code == 4, looked.err
    assert RUNS in looked.out and "created" not in looked.out
    seen = await copy.get()
    assert [each["name"] for each in seen["spec"]["containers"]] == ["app", "look"]
    assert await pod.get() == before


async def test_a_pod_that_is_run_for_its_output_passes_on_its_exit_code_and_is_deleted(
    pods: Pods, engine: EngineNode
) -> None:
    """As `kubectl run -i --rm`: attached to piped input, and without any."""
    flags = ("--rm", "--image", BUSYBOX)
    script = "echo hello; exit 3\n"
    name, other = (f"{base}-{uuid.uuid4().hex[:6]}" for base in ("once", "told"))
    piped = await syncpod(engine, "run", name, "-i", *flags, "--", "sh", stdin=script)
    assert (piped.code, piped.out) == (
        3,
        f'pod/{name} created\nhello\npod "{name}" deleted from default namespace\n',
    ), piped.err
    told = await syncpod(engine, "run", other, "--attach", *flags, "--", "sh", "-c", "echo out; exit 4")
    assert (told.code, told.out) == (4, f'pod/{other} created\nout\npod "{other}" deleted from default namespace\n'), (
        told.err
    )
    gone = await syncpod(engine, "get", "pod", name)
    assert gone.code == 1 and f'pods "{name}" not found' in gone.err
