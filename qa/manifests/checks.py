"""Checks of applied pods. Each function returns a check, which waits for a state and returns a phrase about it."""

from __future__ import annotations

import os
import re
from typing import Any

from qa.manifests.cases import Applied, Check
from qa.manifests.node import NotSo, RunningPod, fetched, moments, state_of
from tests.e2e.engine import status_of


def runs(*, restarts: int | None = 0) -> Check:
    """All pods run with all their containers, each restarted this many times; with None, any number is accepted."""

    async def check(applied: Applied) -> str:
        for pod in applied.pods:
            await pod.until("running", lambda pod: _all_run(pod, restarts))
        return "Running" if len(applied.pods) == 1 else f"{len(applied.pods)} pods, Running"

    return check


def succeeds() -> Check:
    """The pod ends with all its containers completed."""

    async def check(applied: Applied) -> str:
        pod = await applied.pod.until("at its end", lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
        codes = {
            each["name"]: each["state"]["terminated"]["exitCode"] for each in pod["status"].get("containerStatuses", ())
        }
        phase: str = pod["status"]["phase"]
        if phase != "Succeeded":
            raise NotSo(f"phase {phase}, exit codes {codes}")
        return phase

    return check


def ended(container: str, code: int = 0) -> Check:
    """A container ends with that exit code; its pod may continue."""

    async def check(applied: Applied) -> str:
        pod = await applied.pod.until(
            f"without {container}",
            lambda pod: "terminated" in state_of(pod, container) or status_of(pod, container).get("lastState"),
        )
        status = status_of(pod, container)
        last = state_of(pod, container).get("terminated") or status["lastState"]["terminated"]
        if last["exitCode"] != code:
            raise NotSo(f"{container} ended with {last['exitCode']}")
        return f"{container} ended with {code}"

    return check


def restarted(container: str, times: int = 1) -> Check:
    """A container runs after at least this many restarts."""

    async def check(applied: Applied) -> str:
        await applied.pod.until(
            f"restarted {times} times in {container}",
            lambda pod: (
                status_of(pod, container).get("restartCount", 0) >= times and "running" in state_of(pod, container)
            ),
        )
        return f"{container} was restarted"

    return check


def logs(container: str, *lines: str, stream: str = "stdout") -> Check:
    """A container's log has these lines in succession; blank lines are ignored."""
    return _logged(container, list(lines), stream, shown=" ⏎ ".join(lines))


def log_matches(container: str, pattern: str, stream: str = "stdout") -> Check:
    """A line of a container's log matches the regular expression as a whole."""

    async def check(applied: Applied) -> str:
        await _until_logged(applied.pod, container, stream, lambda found: any(re.fullmatch(pattern, f) for f in found))
        return f"{container} writes `{pattern}` to {stream}"

    return check


def prints(container: str, script: str, *wanted: str) -> Check:
    """A shell script in the container prints exactly these lines."""

    async def check(applied: Applied) -> str:
        await applied.pod.until(f"running in {container}", lambda pod: "running" in state_of(pod, container))
        printed = (await applied.pod.sh(container, script)).splitlines()
        if printed != list(wanted):
            raise NotSo(f"`{script}` in {container} prints `{' ⏎ '.join(printed)}`, not `{' ⏎ '.join(wanted)}`")
        return f"`{script}` prints `{' ⏎ '.join(wanted)}`"

    return check


def comes_to_print(container: str, script: str, *wanted: str) -> Check:
    """A shell script in the container prints exactly these lines, now or when it is run again later."""

    async def check(applied: Applied) -> str:
        otherwise = NotSo()
        async for _ in moments():
            try:
                return await prints(container, script, *wanted)(applied)
            except NotSo as error:
                otherwise = error
        raise otherwise

    return check


def environment(container: str, **wanted: str) -> Check:
    """A container's environment has variables with these values."""

    async def check(applied: Applied) -> str:
        names = " ".join(wanted)
        await applied.pod.until(f"running in {container}", lambda pod: "running" in state_of(pod, container))
        printed = await applied.pod.sh(container, f"for name in {names}; do printenv $name || echo; done")
        found = dict(zip(wanted, printed.splitlines(), strict=False))
        if found != wanted:
            raise NotSo(f"the environment of {container} has {found}")
        return ", ".join(f"`{name}={value}`" for name, value in wanted.items())

    return check


def memory_limit(container: str, mebibytes: int) -> Check:
    """The container's cgroup, as seen from inside, has this limit of memory."""
    return _measures(
        container,
        "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes",
        str(mebibytes << 20),
        f"{container} is limited to {mebibytes} MiB",
    )


def cpu_limit(container: str, millicpus: int) -> Check:
    """The container's cgroup, as seen from inside, has this limit in thousandths of a CPU."""
    return _measures(
        container,
        "cd /sys/fs/cgroup; set -- $(cat cpu.max cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us 2>/dev/null)"
        "; echo $(($1 * 1000 / $2))",
        str(millicpus),
        f"{container} is limited to {millicpus}m CPU",
    )


def pod_limits(millicpus: int, mebibytes: int) -> Check:
    """The pod's cgroup, which is above its containers' cgroups, has these limits."""

    async def check(applied: Applied) -> str:
        uid = (await applied.pod.get())["metadata"]["uid"]
        directories = applied.node.engine.cgroups(uid)
        names = ("memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
        found = {name: (at / name).read_text() for at in directories for name in names if (at / name).exists()}
        quota, period = (found.get("cpu.max") or f"{found['cpu.cfs_quota_us']} {found['cpu.cfs_period_us']}").split()
        memory = (found.get("memory.max") or found["memory.limit_in_bytes"]).strip()
        if quota == "max" or int(quota) * 1000 // int(period) != millicpus or memory != str(mebibytes << 20):
            raise NotSo(f"the pod's cgroup has {found}")
        return f"the pod is limited to {millicpus}m CPU and {mebibytes} MiB"

    return check


def runs_where_there_are_cpus(count: int) -> Check:
    """The pod runs if the machine has this many CPUs, and is rejected if it has fewer."""

    async def check(applied: Applied) -> str:
        await (runs() if (os.cpu_count() or 1) >= count else rejected("OutOfcpu", "enough resource: cpu"))(applied)
        return f"Running on a node of {count} CPUs; one of fewer turns it away: phase Failed, reason OutOfcpu"

    return check


def serves(port: int, *words: str) -> Check:
    """Each pod serves a page with these words at a port of its address."""

    async def check(applied: Applied) -> str:
        for pod in applied.pods:
            page = await pod.page(port)
            missing = [word for word in words if word not in page]
            if missing:
                raise NotSo(f"port {port} serves `{page.strip()}`, without {missing}")
        return f"port {port} serves `{' … '.join(words)}`"

    return check


def serves_on_the_node(port: int, *words: str) -> Check:
    """A page with these words is served at a port of the node's loopback address."""

    async def check(applied: Applied) -> str:
        page = await fetched(f"http://127.0.0.1:{port}/")
        if any(word not in page for word in words):
            raise NotSo(f"port {port} of the node serves `{page.strip()}`")
        return f"port {port} of the node serves `{' … '.join(words)}`"

    return check


def status(path: str, wanted: Any) -> Check:
    """A field of the status of each pod has that value, or gets it later."""

    async def check(applied: Applied) -> str:
        for pod in applied.pods:
            found: Any = None
            async for _ in moments():
                found = _at(await pod.get(), path)
                if found == wanted:
                    break
            else:
                raise NotSo(f"status.{path} is {found!r}, not {wanted!r}")
        return f"status.{path}: {wanted}"

    return check


def event(reason: str, words: str = "") -> Check:
    """The pod has or gets an event with that reason and these words in its message."""

    async def check(applied: Applied) -> str:
        events: list[dict[str, Any]] = []
        async for _ in moments():
            events = [each for each in await applied.pod.events() if each["reason"] == reason]
            if any(words in each["message"] for each in events):
                return f"event {reason}: {words}".removesuffix(": ")
        raise NotSo(f"no event {reason} with `{words}`, but {[each['message'] for each in events]}")

    return check


def rejected(reason: str, words: str) -> Check:
    """The node does not admit the pod, which fails with that reason and these words in its message."""

    async def check(applied: Applied) -> str:
        pod = await applied.pod.until("at its end", lambda pod: pod["status"].get("phase") in ("Failed", "Succeeded"))
        found = pod["status"]
        if found.get("reason") != reason or words not in found.get("message", ""):
            raise NotSo(f"phase {found['phase']}, reason {found.get('reason')}: {found.get('message')}")
        return f"phase Failed, reason {reason}: `{words}`"

    return check


def waits(container: str, reason: str, words: str) -> Check:
    """A container is waiting with that reason and these words in its message."""

    async def check(applied: Applied) -> str:
        def seen(pod: dict[str, Any]) -> bool:
            waiting = state_of(pod, container).get("waiting", {})
            return waiting.get("reason") == reason and words in waiting.get("message", "")

        await applied.pod.until(f"waiting for {reason} in {container}", seen)
        return f"{container} waits: {reason}: {words}"

    return check


def says(*lines: str) -> Check:
    """The output of `apply` is exactly these lines."""

    async def check(applied: Applied) -> str:
        if applied.said.out.split("\n")[:-1] != list(lines):
            raise NotSo(f"`apply` says {applied.said.out!r}")
        return f"`{' ⏎ '.join(lines)}`"

    return check


def command(arguments: str, *wanted: str) -> Check:
    """The output of a `syncpod` command has these lines; the width of blanks is ignored."""

    async def check(applied: Applied) -> str:
        said = await applied.node.syncpod(*arguments.split(), "--namespace", applied.namespace)
        printed = [" ".join(line.split()) for line in said.out.splitlines()]
        missing = [line for line in wanted if line not in printed]
        if said.code or missing:
            raise NotSo(f"`syncpod {arguments}` has no {missing}: {said.err or printed}")
        return f"`syncpod {arguments}`: `{' ⏎ '.join(wanted)}`"

    return check


def _measures(container: str, script: str, wanted: str, shown: str) -> Check:
    async def check(applied: Applied) -> str:
        await prints(container, script, wanted)(applied)
        return shown

    return check


def _logged(container: str, lines: list[str], stream: str, shown: str) -> Check:
    def has(found: list[str]) -> bool:
        return any(found[at : at + len(lines)] == lines for at in range(len(found)))

    async def check(applied: Applied) -> str:
        await _until_logged(applied.pod, container, stream, has)
        return f"{container} writes `{shown}`"

    return check


async def _until_logged(pod: RunningPod, container: str, stream: str, has: Any) -> None:
    await pod.until(
        f"started in {container}",  # a container that crashes at once may only be seen in its back-off
        lambda pod: (
            {"running", "terminated"} & state_of(pod, container).keys() or status_of(pod, container).get("lastState")
        ),
    )
    found: list[str] = []
    async for _ in moments():
        found = [line.rstrip() for line in await pod.log(container, stream) if line.strip()]
        if has(found):
            return
    raise NotSo(f"{container} writes `{' ⏎ '.join(found[:20])}`")


def _all_run(pod: dict[str, Any], restarts: int | None) -> bool:
    statuses = pod["status"].get("containerStatuses", ())
    return pod["status"].get("phase") == "Running" and all(
        "running" in each["state"] and restarts in (None, each["restartCount"]) for each in statuses
    )


def _at(pod: dict[str, Any], path: str) -> Any:
    found: Any = pod["status"]
    for step in re.findall(r"[^.\[\]]+", path):
        try:
            found = found[int(step)] if isinstance(found, list) else found.get(step)
        except (IndexError, AttributeError):
            return None
    return found
