"""The search for the runtime's socket, or a sentence with the reason why there is none."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.cri import endpoint
from syncpod.cri.endpoint import NoRuntime, candidates, find_endpoint, listener_pid, socket_path


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="cri-") as made:
        yield Path(made)


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener


def asked_for(path: Path) -> dict[str, str]:
    return {"CONTAINER_RUNTIME_ENDPOINT": f"unix://{path}"}


def refusal(environ: dict[str, str]) -> NoRuntime:
    with pytest.raises(NoRuntime) as caught:
        find_endpoint(environ)
    return caught.value


@pytest.mark.parametrize("prefix", ["unix://", ""])
def test_environment_variable_names_the_socket_with_or_without_scheme(directory: Path, prefix: str) -> None:
    path = directory / "cri.sock"
    with listen(path):
        assert find_endpoint({"CONTAINER_RUNTIME_ENDPOINT": f"{prefix}{path}"}) == f"unix://{path}"


def test_well_known_sockets_are_tried_in_order_if_the_variable_is_unset(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = directory / "containerd.sock", directory / "crio.sock"
    monkeypatch.setattr(endpoint, "WELL_KNOWN", (str(first), str(second)))
    with listen(second):
        assert find_endpoint({}) == f"unix://{second}"
        with listen(first):
            assert find_endpoint({"CONTAINER_RUNTIME_ENDPOINT": ""}) == f"unix://{first}"


def test_well_known_sockets_are_those_of_containerd_and_crio() -> None:
    assert candidates({}) == ("/run/containerd/containerd.sock", "/run/crio/crio.sock")


def test_no_other_runtime_is_used_if_the_requested_one_is_down(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = directory / "containerd.sock"
    monkeypatch.setattr(endpoint, "WELL_KNOWN", (str(present),))
    with listen(present):
        error = refusal(asked_for(directory / "mine.sock"))
    assert error.tried == ((f"{directory}/mine.sock", "missing"),)
    assert str(error) == (
        f"no container runtime at {directory}/mine.sock (missing), which --runtime-endpoint or "
        "CONTAINER_RUNTIME_ENDPOINT names: "
        "start the runtime or correct its name"
    )


def test_sentence_lists_each_socket_with_its_reason(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing, dead, plain = directory / "missing.sock", directory / "dead.sock", directory / "plain.sock"
    listen(dead).close()
    plain.touch()
    monkeypatch.setattr(endpoint, "WELL_KNOWN", (str(missing), str(dead), str(plain), f"{plain}/below"))
    assert str(refusal({})) == (
        f"no container runtime at {missing} (missing), {dead} (connection refused: nothing listens there any more), "
        f"{plain} (not a socket), {plain}/below (missing): "
        "start containerd or CRI-O, or name another one's socket in CONTAINER_RUNTIME_ENDPOINT; `syncpod runtime` "
        "starts the embedded one"
    )


def test_socket_whose_queue_is_full_accepts_no_connections(directory: Path) -> None:
    path = directory / "full.sock"
    with listen(path) as listener:
        listener.listen(0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as waiting:
            waiting.connect(str(path))
            assert refusal(asked_for(path)).tried == ((str(path), "accepts no connections"),)


@pytest.mark.parametrize(("path", "why"), [("/" + "d" * 107, "has 108 bytes"), ("/run/a,b", "has a comma")])
def test_a_path_that_grpc_cannot_use_is_refused(path: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"{path} {why}"):
        find_endpoint(asked_for(Path(path)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_missing_permission_is_reported_as_the_reason(directory: Path) -> None:
    path = directory / "cri.sock"
    program = (
        "from syncpod.cri import endpoint\n"
        "import os\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"endpoint.WELL_KNOWN = ({str(path)!r},)\n"
        f"for environ in ({asked_for(path)!r}, {{}}):\n"
        "    try:\n"
        "        endpoint.find_endpoint(environ)\n"
        "    except endpoint.NoRuntime as error:\n"
        "        assert error.permission_denied\n"
        "        print(error)\n"
    )
    found, remedy = (
        f"no container runtime at {path} (permission denied)",
        "run as root or join the group that owns the socket",
    )
    with listen(path):
        path.chmod(0o660)
        for mode in (0o755, 0o700):  # the socket is forbidden, then the directory too
            directory.chmod(mode)
            told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
            assert told.splitlines() == [
                f"{found}, which --runtime-endpoint or CONTAINER_RUNTIME_ENDPOINT names: {remedy}",
                f"{found}: {remedy}, or start the embedded one, which needs neither: `syncpod runtime`",
            ]


@pytest.mark.parametrize("wrong", ["tcp://127.0.0.1:1", "containerd.sock", "unix://containerd.sock", "unix:/x"])
def test_endpoint_that_is_not_an_absolute_socket_path_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"unix:///path"):
        candidates({"CONTAINER_RUNTIME_ENDPOINT": wrong})


def test_socket_path_drops_the_scheme() -> None:
    assert socket_path("unix:///run/x.sock") == socket_path("/run/x.sock") == "/run/x.sock"


def test_real_runtime_is_found(cri_endpoint: str) -> None:
    assert find_endpoint({"CONTAINER_RUNTIME_ENDPOINT": cri_endpoint}) == cri_endpoint


def test_pid_of_the_listening_process_is_found(directory: Path) -> None:
    with listen(directory / "cri.sock"):
        assert listener_pid(f"unix://{directory / 'cri.sock'}") == os.getpid()
    with pytest.raises(ConnectionRefusedError):
        listener_pid(str(directory / "cri.sock"))
