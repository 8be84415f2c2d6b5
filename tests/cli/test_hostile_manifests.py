"""Hostile manifests: one clear sentence each, exit code 2, no traceback, and a bounded amount of work.

Each manifest is passed to the real program, in a process with small limits of memory and CPU time: a manifest that
exceeds them fails the test, instead of making it slow. The usage of each large manifest is printed.

Holds: A hostile manifest costs one sentence.
"""

# ruff: noqa: E501 - the tables have one case a line

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

MEMORY = 512 * 1024**2
"""The limit of the address space in bytes; a good manifest of 10 MiB takes a third of it."""
SECONDS = 10
"""The limit of CPU time in seconds; most manifests take half a second."""
MANY = 100_000

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: app, image: busybox}]
"""
NAME = "must consist of lower-case letters, digits, '-' and '.', and start and end with a letter or digit"
LABEL = "must consist of lower-case letters, digits and '-', and start and end with a letter or digit"
NUL = "must have no NUL character, which no process and no path can be given"


@dataclass(frozen=True)
class Ended:
    """The exit of the program and its resource usage."""

    code: int
    out: str
    err: str
    seconds: float
    """CPU time."""


def applied(*arguments: str | Path, stdin: int | IO[bytes] = subprocess.DEVNULL, before: tuple[str, ...] = ()) -> Ended:
    """Run `syncpod apply` within the limits, without a server; `before` is a command that runs it.

    A shell sets the bounds, not a `preexec_fn`: for that Python forks this process, and gRPC, where a test before has
    used it, then writes to the stderr of the child.
    """
    bounded = ("sh", "-c", f'ulimit -v {MEMORY // 1024}; ulimit -t {SECONDS}; exec "$@"', "sh")
    with subprocess.Popen(
        [*bounded, *before, sys.executable, "-m", "syncpod.cli.main", "apply", *map(str, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TEMPORAL_CONFIG_FILE": os.devnull, "TEMPORAL_ADDRESS": "127.0.0.1:1"},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        errors: list[bytes] = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))  # type: ignore[union-attr]
        reader.start()
        out = process.stdout.read()
        reader.join()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, out.decode(), errors[0].decode(), usage.ru_utime + usage.ru_stime)


def pod(**spec: Any) -> str:
    whole = {"containers": [{"name": "app", "image": "busybox"}]} | spec
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": whole})


def labels(count: int) -> str:
    return POD.replace("{name: web}", "{name: web, labels: {" + ", ".join(f"k{n}: v" for n in range(count)) + "}}")


def laughs() -> str:
    lines = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


def deep_block(levels: int) -> str:
    """Return nested mappings, each indented by one more blank; a hundred thousand levels would take 5 GB."""
    return "\n".join(" " * level + "a:" for level in range(levels))


LARGE: dict[str, tuple[str | bytes, str]] = {
    "labels by the hundred thousand": (labels(MANY), ", document 1: more than 200000 values (line 3, column 1088856)"),
    "containers": (pod(containers=[{}] * MANY), ", document 1: spec.containers: must be no more than 500"),
    "environment in JSON": (pod(containers=[{"name": "app", "image": "busybox", "env": [{}] * MANY}]), ", document 1: must have no more than 20000 values"),
    "depth in flow YAML": ("[" * MANY, ", document 1: nested more than 100 levels deep (line 1, column 101)"),
    "depth in block YAML": ("- " * MANY, ", document 1: nested more than 100 levels deep (line 1, column 201)"),
    "depth in block mappings": (deep_block(3_000), ", document 1: nested more than 100 levels deep (line 100, column 100)"),
    "depth in JSON": ('{"a":' * MANY + "1" + "}" * MANY, ", document 1: nested more than 100 levels deep (line 1, column 497)"),
    "a billion laughs": (laughs(), ", document 1: aliases stand for more than 10000 values (line 4, column 45)"),
    "merges by the ten thousand": (POD + "".join(f"<<: {{x{n}: 1}}\n" for n in range(50_000)), ", document 1: must have no more than 20000 values"),
    "documents by the million": ("---\n" * 2_600_000, ", document 100001: more than 200000 values (line 100001, column 1)"),
    "objects by the million": ('{"a":[' + "{}," * 3_000_000 + "{}]}", ", document 1: more than 200000 values (line 1, column 599995)"),
    "numbers by the million": ('{"a":[' + "1," * 5_000_000 + "1]}", ", document 1: more than 200000 values (line 1, column 399999)"),
    "escapes by the hundred thousand": ("- \"it\\'s\"\n" * MANY, r", document 1: too many \' escapes: write ' without a backslash inside double quotes"),
    "a text of eleven megabytes": ("a: " + "x" * (11 * 2**20), ": larger than 10 MiB"),
    "a name of a megabyte": (POD.replace("web", "w" * 2**20), f": pod {'w' * 80}…: metadata.name: must be no more than 253 characters"),
}  # fmt: skip

SMALL: dict[str, tuple[str | bytes, str]] = {
    "an anchor that holds itself": ("a: &a [*a]", ", document 1: the anchor 'a' holds itself (line 1, column 8)"),
    "an anchor in itself by a merge": ("a: &a\n  b: 1\n  <<: *a", ", document 1: the anchor 'a' holds itself (line 3, column 7)"),
    "a tag that would run": ("!!python/object/apply:os.system [touch /tmp/owned]", ", document 1: YAML tags such as !!python/object/apply:os.system are not taken (line 1, column 1)"),
    "a tag of binary": (POD.replace("web", "!!binary aGk="), ", document 1: YAML tags such as !!binary are not taken (line 3, column 18)"),
    "a key twice": (POD + "kind: Pod\n", ", document 1: the key 'kind' is there twice (line 6, column 1)"),
    "a key twice in JSON": ('{"apiVersion": "v1", "kind": "Pod", "kind": "Secret"}', ", document 1: the key 'kind' is there twice (line 1, column 37)"),
    "a key that is a list": ("? [a]\n: b", ", document 1: a key must be a string (line 1, column 3)"),
    "Latin-1": (POD.replace("web", "wéb").encode("latin-1"), ": not UTF-8 text (byte 43)"),
    "UTF-16": (POD.encode("utf-16"), ": not UTF-8 text (byte 0)"),
    "UTF-16 without its mark": (POD.encode("utf-16-le"), ": not text: it holds a NUL (character 1); is it UTF-16?"),
    "UTF-8 that is too long": (b"a: \xc0\xaf", ": not UTF-8 text (byte 3)"),
    "a NUL in an escape": (POD.replace("image: busybox", 'image: busybox, args: ["\\0"]'), f", document 1: spec.containers[0].args[0]: {NUL}"),
    "half a pair": (pod().replace("web", "\\ud83d"), ", document 1: not YAML: found invalid Unicode character escape code (line 1, column 61)"),
    "an order to the terminal in a name": (POD.replace("web", '"\\e]0;owned\\a\\e[2J"'), rf": pod \x1b]0;owned\x07\x1b[2J: metadata.name: {NAME}"),
    "an order to the terminal in a field": (POD.replace("name:", '"\\e[2J":', 1), r", document 1: metadata.\x1b[2J: unknown field"),
    "a line in a name": (POD.replace("web", '"web\\nsyncpod: pod/web created"'), rf": pod web\nsyncpod: pod/web created: metadata.name: {NAME}"),
    "a name written backwards": (POD.replace("web", '"\\u202egpj.exe"'), rf": pod \u202egpj.exe: metadata.name: {NAME}"),
    "a name in letters that look alike": (POD.replace("web", "w\u0435b"), rf": pod w\u0435b: metadata.name: {NAME}"),
    "a number with a giant exponent": (POD + "  priority: 1e999999999\n", ", document 1: spec.priority: must be an integer, not a string"),
    "a number of a million digits": (pod(priority=0).replace('"priority": 0', '"priority": ' + "9" * 10**6), ", document 1: spec.priority: must be an integer, not a string"),
    "an amount with a giant exponent": (pod(overhead={"cpu": "1e999999999"}), ", document 1: spec.overhead[cpu]: has an exponent out of range: e999999999"),
    "an amount of a million digits": (pod(overhead={"cpu": "9" * 10**6}), ", document 1: spec.overhead[cpu]: must be a quantity such as 100m, 0.5, 64Mi or 129e6"),
    "not a number": (pod(priority=float("nan")), ", document 1: spec.priority: must be an integer, not a string"),
    "infinity": (POD + "  priority: .inf\n", ", document 1: .inf is not a number that JSON has (line 6, column 13)"),
    "a path that climbs": (pod(volumes=[{"name": "v", "hostPath": {"path": "/srv/../../etc"}}]), ": pod web: spec.volumes[0].hostPath.path: must not contain '..'"),
    "a path that climbs out of a volume": (pod(containers=[{"name": "app", "image": "busybox", "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../../etc"}]}], volumes=[{"name": "v"}]), ": pod web: spec.containers[0].volumeMounts[0].subPath: must not contain '..'"),
    "a file that climbs": (pod(volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "../../etc/passwd"}]}}]), ": pod web: spec.volumes[0].configMap.items[0].path: must not contain '..'"),
    "a name that climbs": (POD.replace("web", "../../etc/cron.d/x"), f": pod ../../etc/cron.d/x: metadata.name: {NAME}"),
    "a container that climbs": (POD.replace("name: app", "name: ../../x"), f": pod web: spec.containers[0].name: {LABEL}"),
    "an object where a list belongs": (pod(containers={"name": "app"}), ", document 1: spec.containers: must be a list"),
    "a text for a document": ("rm -rf /", ", document 1: must be an object with apiVersion and kind"),
    "a List in a List": ('{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": []}]}', ", document 1: items[0].kind: must be Pod, ConfigMap, Secret or List, not List"),
}  # fmt: skip


@pytest.mark.parametrize(("manifest", "sentence"), LARGE.values(), ids=LARGE)
def test_an_expensive_manifest_is_refused_in_one_sentence(
    manifest: str | bytes,
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    file = tmp_path / "m.yaml"
    file.write_bytes(manifest if isinstance(manifest, bytes) else manifest.encode())
    ended = applied("-f", file)
    with capsys.disabled():
        sys.stdout.write(f"\n{ended.seconds:5.2f} s of a processor: {request.node.callspec.id} ")
    assert (ended.code, ended.out, ended.err) == (2, "", f"syncpod: {file}{sentence}\n")


def test_each_invalid_manifest_of_a_directory_is_refused_in_one_sentence(tmp_path: Path) -> None:
    expected = {}
    for number, (text, sentence) in enumerate(SMALL.values()):
        file = tmp_path / f"{number:02}.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        expected[f"syncpod: {file}{sentence}"] = file
    ended = applied("-f", tmp_path)
    # What cannot be read comes first, then what can be and is not a pod.
    assert (ended.code, ended.out, sorted(ended.err.splitlines())) == (2, "", sorted(expected))


def test_a_device_that_never_ends_is_read_only_up_to_a_manifests_limit() -> None:
    ended = applied("-f", "/dev/zero", "-f", "/dev/urandom", "-f", "/dev/full")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        f"syncpod: /dev/{name}: larger than 10 MiB" for name in ("zero", "urandom", "full")
    ]


def test_an_input_that_never_ends_is_read_only_up_to_a_manifests_limit() -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        ended = applied("-f", "-", stdin=endless.stdout)
        endless.stdout.close()
    assert (ended.code, ended.out, ended.err) == (2, "", "syncpod: standard input: larger than 10 MiB\n")


def test_a_manifest_may_come_from_a_process_substitution(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("a: b"))
    writer.start()
    ended = applied("-f", pipe)
    writer.join()
    assert (ended.code, ended.out, ended.err) == (2, "", f"syncpod: {pipe}, document 1: kind: required\n")


def test_a_path_that_is_not_a_file_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    directory = tmp_path / "directory"
    directory.mkdir()
    os.mkfifo(directory / "pipe.yaml")
    (directory / "again.yaml").symlink_to(directory)
    (directory / "nowhere.yaml").symlink_to("missing")
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(tmp_path):
        listening.bind("socket")  # a path of no more than 108 bytes
    order = tmp_path / "\x1b[31mred.yaml"
    long = tmp_path / ("x" * 300)
    sources = [directory, loop, tmp_path / "socket", order, long, tmp_path / "empty"]
    reasons = {
        f"{directory}/nowhere.yaml": "No such file or directory",
        f"{loop}": "Too many levels of symbolic links",
        f"{tmp_path}/socket": "No such device or address",
        f"{tmp_path}/\\x1b[31mred.yaml": "No such file or directory",
        f"{long}": "File name too long",
    }
    ended = applied(*(part for source in sources for part in ("-f", source)))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [f"syncpod: {tmp_path}/empty: no .yaml, .yml, .json file in this directory"]
    ended = applied(*(part for source in sources[:-1] for part in ("-f", source)))
    assert ended.err.splitlines() == [f"syncpod: {name}: {reason}" for name, reason in reasons.items()]


def test_an_unreadable_path_is_named_with_the_reason(tmp_path: Path) -> None:
    file, directory = tmp_path / "m.yaml", tmp_path / "closed"
    file.write_text(POD)
    file.chmod(0)
    directory.mkdir(mode=0)
    plain = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.getuid() == 0 else ()
    ended = applied("-f", file, "-f", directory, before=plain)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"syncpod: {file}: Permission denied\nsyncpod: {directory}: Permission denied\n"
