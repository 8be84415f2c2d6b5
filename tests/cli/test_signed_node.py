"""Only the owner can command a node after `up`; real processes of another user and a pod try it.

Holds: Only users who can read the key in the state directory can command a signed node.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from syncpod.cli.machine.listening_process import listens
from tests.cli import stranger
from tests.cli.conftest import Result, program
from tests.cli.machine import EMBEDDED, machine
from tests.runtimes.ports import free_ports
from tests.runtimes.processes import kill
from tests.runtimes.temporal import temporal_program

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

STRANGER = 20001
NOBODY = 65534
SLEEPS = ["sh", "-c", "trap exit TERM; sleep 3600 & wait"]


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "app", "image": "busybox:1", "command": SLEEPS}
    base = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": base | spec}


def privileged() -> dict[str, Any]:
    """A pod that is root on the whole machine."""
    evil = pod("evil", volumes=[{"name": "root", "hostPath": {"path": "/"}}])
    (container,) = evil["spec"]["containers"]
    container |= {"securityContext": {"privileged": True}, "volumeMounts": [{"name": "root", "mountPath": "/host"}]}
    return {"pod": evil}


@pytest.fixture(scope="module")
def environ(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A machine whose node serves the pod ``web``."""
    with machine(EMBEDDED, request, tmp_path_factory.mktemp("signed")) as environ:
        # Not the usual ports: once its server is killed, the `up` of any other test would take them.
        port, ui_port = map(str, free_ports(2))
        up = ("up", "--embedded", "--port", port, "--ui-port", ui_port, "-f", "-", "--timeout", "90s")
        upped = program(*up, environ=environ, stdin=json.dumps(pod("web")))
        assert upped.code == 0, upped.err
        yield environ


@pytest.fixture(scope="module")
def owner(environ: dict[str, str]) -> dict[str, str]:
    """The environment after `eval "$(syncpod env)"`."""
    told = program("env", environ=environ)
    assert told.code == 0, told.err
    exports = dict(
        line[1].split("=", 1) for text in told.out.splitlines() if (line := shlex.split(text, comments=True))
    )
    assert {
        "TEMPORAL_ADDRESS",
        "TEMPORAL_CODEC_ENDPOINT",
        "TEMPORAL_CODEC_AUTH",
        "TEMPORAL_CLI_ADDRESS",
    } <= exports.keys()
    return exports


def run(*command: str, environ: dict[str, str]) -> Result:
    base = {"PATH": os.environ["PATH"], "TEMPORAL_CONFIG_FILE": os.devnull, "HOME": "/"}
    done = subprocess.run(command, env=base | environ, capture_output=True, text=True, timeout=60, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def as_stranger(owner: dict[str, str], *arguments: str) -> Result:
    """Run `temporal` as an account without rights, which knows only the address."""
    temporal = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", str(temporal_program()))
    return run(*temporal, *arguments, environ={"TEMPORAL_ADDRESS": owner["TEMPORAL_ADDRESS"]})


def names(environ: dict[str, str]) -> dict[str, str]:
    """The phases of all pods, by name."""
    listed = json.loads(program("get", "pods", "-A", "-o", "json", environ=environ).out)
    return {each["metadata"]["name"]: each["status"]["phase"] for each in listed["items"]}


@pytest.fixture
def readable_by_all() -> Iterator[Path]:
    """A directory that every user can read."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_a_stranger_starts_no_pod(environ: dict[str, str], owner: dict[str, str], readable_by_all: Path) -> None:
    node = environ["SYNCPOD_NODE"]
    start = ("workflow", "start", "--type", "PodWorkflow", "--task-queue", f"node/{node}")
    (manifest := readable_by_all / "privileged.json").write_text(json.dumps(privileged()))
    started = as_stranger(owner, *start, "--workflow-id", "pod/default/evil", "--input-file", str(manifest))
    assert started.code == 0, started.err
    result = as_stranger(owner, "workflow", "result", "--workflow-id", "pod/default/evil")
    assert "the start is refused, since it is not signed" in result.out
    assert names(environ) == {"web": "Running"}


def test_a_stranger_ends_and_changes_no_pod(environ: dict[str, str], owner: dict[str, str]) -> None:
    web = ("--workflow-id", "pod/default/web")
    signalled = as_stranger(owner, "workflow", "signal", *web, "--name", "delete_pod", "--input", "{}")
    assert signalled.code == 0, signalled.err
    updated = as_stranger(owner, "workflow", "update", "execute", *web, "--name", "delete", "--input", "{}")
    assert updated.code != 0
    assert "update delete is refused, since it is not signed" in updated.err
    told = program("events", environ=environ).out
    assert "signal delete_pod is refused, since it is not signed" in told
    assert names(environ) == {"web": "Running"}


def test_a_pod_on_the_hosts_network_starts_none_either(environ: dict[str, str], owner: dict[str, str]) -> None:
    """With UID 65534, no capability and a read-only root, the pod can only reach the server's port."""
    start = [str(temporal_program()), "workflow", "start", "--type", "PodWorkflow"]
    start += ["--task-queue", f"node/{environ['SYNCPOD_NODE']}", "--workflow-id", "pod/default/evil"]
    start += ["--input", json.dumps(privileged()), "--address", owner["TEMPORAL_ADDRESS"]]
    security: dict[str, Any] = {
        "runAsUser": NOBODY,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    container: dict[str, Any] = {"name": "app", "image": "busybox:1", "command": start, "securityContext": security}
    container["env"] = [{"name": "TEMPORAL_CONFIG_FILE", "value": os.devnull}, {"name": "HOME", "value": "/"}]
    hostile = pod("hostile", restartPolicy="Never", containers=[container])
    applied = program("apply", "-f", "-", "--wait", "--timeout", "60s", environ=environ, stdin=json.dumps(hostile))
    said = program("logs", "hostile", environ=environ).out
    assert "RunId" in said, (applied.err, said)
    result = as_stranger(owner, "workflow", "result", "--workflow-id", "pod/default/evil")
    assert "the start is refused, since it is not signed" in result.out
    assert names(environ) == {"web": "Running", "hostile": "Succeeded"}


def listening(pid: int) -> list[int]:
    """The loopback ports at which a process listens."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = {int(fields[1].rpartition(":")[2], 16) for fields in lines if fields[3] == "0A"}
    return sorted(port for port in ports if listens(pid, f"127.0.0.1:{port}"))


@pytest.fixture(scope="module")
def tries(environ: dict[str, str], owner: dict[str, str]) -> dict[str, Any]:
    """All attempts against this node; see `tests.cli.stranger`."""
    state = Path(environ["SYNCPOD_STATE_DIR"])
    server = json.loads((state / "server.json").read_text())
    secret = [state / "codec.json", state / "api.sock", *(state / "keys").iterdir(), *(state / "temporal").iterdir()]
    return {
        "node": environ["SYNCPOD_NODE"],
        "pod": privileged(),
        "temporal": str(temporal_program()),
        "ports": listening(server["process"]["pid"]),
        "proxy": int(owner["TEMPORAL_CLI_ADDRESS"].rpartition(":")[2]),
        "codec": owner["TEMPORAL_CODEC_ENDPOINT"],
        "files": [str(path) for path in secret],
    }


def python_of_all() -> str:
    """A Python that every user may run; a virtual environment may be in a private home directory."""
    for found in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        tried = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "stat", "-L", found)
        if run(*tried, environ={}).code == 0:
            return found
    raise AssertionError("no Python that user 65534 may run")


def tried_by_a_user(environ: dict[str, str], tries: dict[str, Any]) -> str:
    """The results of another user's attempts."""
    user = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
    done = run(*user, python_of_all(), stranger.__file__, json.dumps(tries), environ={})
    assert done.code == 0, done.err
    return done.out


def tried_by_a_pod(environ: dict[str, str], tries: dict[str, Any]) -> str:
    """The results of attempts in a pod that has only the host's network."""
    security: dict[str, Any] = {
        "runAsUser": NOBODY,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    command = [python_of_all(), stranger.__file__, json.dumps(tries)]
    container: dict[str, Any] = {"name": "app", "image": "busybox:1", "command": command, "securityContext": security}
    prober = pod("prober", restartPolicy="Never", containers=[container])
    applied = program("apply", "-f", "-", "--wait", "--timeout", "90s", environ=environ, stdin=json.dumps(prober))
    said = program("logs", "-f", "prober", environ=environ).out
    deleted = program("delete", "pod", "prober", environ=environ)
    assert (applied.code, deleted.code) == (0, 0), (applied.err, said, deleted.err)
    return said


REFUSED = {tried_by_a_user: {"PermissionError"}, tried_by_a_pod: {"PermissionError", "FileNotFoundError"}}
"""The expected errors of file access; a pod has its own directories in place of some of the machine's, such as /tmp."""


@pytest.mark.parametrize("attacker", REFUSED)
def test_no_port_and_no_file_lets_anybody_command_the_node(
    environ: dict[str, str], owner: dict[str, str], tries: dict[str, Any], attacker: Callable[..., str]
) -> None:
    """Each row of the table of ports in docs/threat-model.md."""
    before = names(environ)
    done = json.loads(attacker(environ, {**tries, "name": attacker.__name__.replace("_", "-")}))
    frontend = owner["TEMPORAL_ADDRESS"].rpartition(":")[2]
    assert len(done["http"]) >= 4, "gRPC, HTTP, UI and metrics at least"
    assert [port for port, outcome in done["grpc"].items() if outcome == "started"] == [frontend]
    assert [*done["http"].values()].count("200") == 2, "the HTTP API, by its own port and by the UI's"
    assert "unauthenticated" in done["grpc"][str(tries["proxy"])]
    assert done["codec"] == "401"
    assert len(done["files"]) >= 4 and set(done["files"].values()) <= REFUSED[attacker], done["files"]
    name = attacker.__name__.replace("_", "-")
    started = [f"{name}-{how}-{port}" for how in ("http", "rebound") for port, got in done[how].items() if got == "200"]
    for each in (*started, f"pod/default/{name}-grpc-{frontend}"):
        result = as_stranger(owner, "workflow", "result", "--workflow-id", each)
        assert "the start is refused, since it is not signed" in result.out, (each, result)
    assert names(environ) == before


def test_syncpod_without_the_key_says_what_it_lacks(
    environ: dict[str, str], owner: dict[str, str], tmp_path: Path
) -> None:
    (node,) = program("get", "nodes", "-o", "name", environ=environ).out.splitlines()
    keyless = {"TEMPORAL_ADDRESS": owner["TEMPORAL_ADDRESS"], "SYNCPOD_STATE_DIR": str(tmp_path / "other")}
    for code, command in ((1, "delete pod web"), (1, "restart web"), (2, "label pod web a=b"), (1, f"cordon {node}")):
        refused = program(*command.split(), environ=keyless)
        assert refused.code == code, refused
        assert "is refused, since it is not signed: a node's commands must be signed" in refused.err
    assert names(environ)["web"] == "Running"


def test_the_keys_are_the_owners_alone(environ: dict[str, str]) -> None:
    state = Path(environ["SYNCPOD_STATE_DIR"])
    secret = [state / "codec.json", *(state / "keys").iterdir()]
    assert len(secret) >= 3
    assert all(path.stat().st_mode & 0o077 == 0 for path in (*secret, state, state / "keys"))


def test_the_owner_commands_by_temporal_and_tctl(environ: dict[str, str], owner: dict[str, str], tctl: Path) -> None:
    """In plain JSON, after one `eval`."""
    web = ("--workflow-id", "pod/default/web")
    temporal = str(temporal_program())
    label = pod("web")
    label["metadata"]["labels"] = {"by": "temporal"}
    updated = run(
        temporal, "workflow", "update", "execute", *web, "--name", "apply", "--input", json.dumps(label), environ=owner
    )
    assert updated.code == 0, updated.err
    label["metadata"]["labels"]["too"] = "tctl"
    signal = (str(tctl), "workflow", "signal", "-w", "pod/default/web", "-n", "update_pod", "-i", json.dumps(label))
    signalled = run(*signal, environ=owner)
    assert signalled.code == 0, signalled.out + signalled.err
    refused = run(*signal, environ={**owner, "TEMPORAL_CLI_AUTH": "Bearer wrong"})
    assert "the token is not that of this node" in refused.out + refused.err
    waited = program("wait", "pod", "web", "--for", "jsonpath={.metadata.labels.too}=tctl", environ=environ)
    assert waited.code == 0, waited.err
    shown = run(temporal, "workflow", "show", *web, environ=owner)
    assert "WorkflowExecutionUpdateCompleted" in shown.out
    nameless = run(
        temporal, "workflow", "signal", "--query", "WorkflowType='None'", "--name", "renew", "--yes", "--input", "{}",
        environ=owner,
    )  # fmt: skip
    assert "the payload's workflow is unknown" in nameless.err


def test_a_new_key_takes_over_while_the_node_runs(environ: dict[str, str], owner: dict[str, str]) -> None:
    """No pod restarts, and the key before is needed until the node's workflows have continued as new."""
    keys = Path(environ["SYNCPOD_STATE_DIR"]) / "keys"
    (before,) = (path.stem for path in keys.glob("*.key"))
    assert program("key", "remove", before, environ=environ).code == 2, "it signs"
    rotated = program("key", "rotate", environ=environ)
    assert rotated.code == 0, rotated.err
    (after,) = (path.stem for path in keys.glob("*.key") if path.stem != before)
    assert rotated.out == f"key/{after} signs from now on\n"
    until(lambda: program("key", "remove", before, environ=environ).code == 0)
    assert [line.split()[0] for line in program("key", "list", environ=environ).out.splitlines()] == ["ID", after]
    labelled = program("label", "pod", "web", "signed-by=the-new-key", environ=environ)
    assert labelled.code == 0, labelled.err
    update = ("workflow", "update", "execute", "--workflow-id", "pod/default/web", "--name", "delete")
    refused = as_stranger(owner, *update, "--input", "{}")
    assert "is refused, since it is not signed" in refused.err
    (status,) = json.loads(program("get", "pod", "web", "-o", "json", environ=environ).out)["status"][
        "containerStatuses"
    ]
    assert (status["restartCount"], "running" in status["state"]) == (0, True)


@contextmanager
def server_of_a_stranger(address: str, directory: Path) -> Iterator[None]:
    """A Temporal server of another user at an address that has just become free."""
    command = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", str(temporal_program())]
    command += ["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", address.rpartition(":")[2]]
    directory.chmod(0o777)
    with (directory / "server").open("wb") as log:
        environ = {"HOME": str(directory), "USER": "stranger", "TEMPORAL_CONFIG_FILE": os.devnull}
        server = subprocess.Popen(command, env=environ, cwd=directory, stdout=log, stderr=log)
    try:
        until(lambda: listens(server.pid, address) or server.poll() is not None)
        assert server.poll() is None, (directory / "server").read_text()
        yield
    finally:
        server.kill()
        server.wait()


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_server_that_took_over_the_port_is_not_believed(
    environ: dict[str, str], owner: dict[str, str], readable_by_all: Path
) -> None:
    """The worker refuses commands of that server, and reports that it is another server; the pod keeps running."""
    state = Path(environ["SYNCPOD_STATE_DIR"])
    before = json.loads(program("get", "pod", "web", "-o", "json", environ=environ).out)
    log = state / "log" / "worker.log"
    kill([json.loads((state / "server.json").read_text())["process"]["pid"]])  # which holds the port until it has ended
    with server_of_a_stranger(owner["TEMPORAL_ADDRESS"], readable_by_all):
        start = ("workflow", "start", "--type", "PodWorkflow", "--task-queue", f"node/{environ['SYNCPOD_NODE']}")
        evil = ("--workflow-id", "pod/default/evil", "--input", json.dumps(privileged()))
        until(lambda: as_stranger(owner, *start, *evil).code == 0)
        until(lambda: "is not the one that has the pods of node" in log.read_text())
        told = as_stranger(owner, "workflow", "show", "--workflow-id", "pod/default/evil", "--output", "json").out
        assert "ActivityTaskScheduled" not in told and "ACTIVITY_TASK_SCHEDULED" not in told
    again = program("up", "--embedded", "--timeout", "90s", environ=environ)
    assert again.code == 0, again.err
    assert names(environ)["web"] == "Running"
    after = json.loads(program("get", "pod", "web", "-o", "json", environ=environ).out)
    one, other = (pod["status"]["containerStatuses"][0] for pod in (before, after))
    assert (one["containerID"], one["restartCount"]) == (other["containerID"], other["restartCount"])
