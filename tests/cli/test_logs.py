"""What `logs` takes and refuses, and how it treats several containers at once, without a runtime."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from syncpod.cli import containers, logs
from syncpod.cli.failure import Failure
from syncpod.pod import Pod, parse_pod
from tests.cli.conftest import program
from tests.cli.test_log_lines import record


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--tail", "-2"), "--tail: must be 0 or more lines"),
        (("--limit-bytes", "-1"), "--limit-bytes: must be 1 or more bytes"),
        (("--max-log-requests", "0"), "--max-log-requests: must be 1 or more containers"),
        (("-c", "a", "--all-containers"), "either --container or --all-containers"),
    ],
)
def test_wrong_flags_are_refused_in_a_sentence(flags: Sequence[str], sentence: str) -> None:
    refused = program("logs", "web", *flags)
    assert (refused.code, refused.out) == (2, "")
    assert sentence in refused.err


class Runtime:
    """A runtime that knows where logs are, and of which nothing runs."""

    async def __aenter__(self) -> Runtime:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def container_status(self, id: str) -> SimpleNamespace:
        return SimpleNamespace(id=id, state="exited")


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    """A pod whose containers `a` and `b` have run, of which only `b` has a log."""
    (tmp_path / "b.log").write_bytes(record("one") + record("two", stream="stderr"))
    (tmp_path / "b.log.20260131-120000").write_bytes(record("zero"))

    async def log_path(_pod: Pod, container: str, *_: Any) -> Path:
        return tmp_path / f"{container}.log"

    monkeypatch.setattr(logs, "_log_path", log_path)
    monkeypatch.setattr(containers, "runtime_of", lambda _: Runtime())
    ended = {"terminated": {"exitCode": 0, "containerID": "x://1"}}
    return parse_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": name, "image": "busybox:1"} for name in "ab"]},
            "status": {
                "containerStatuses": [
                    {
                        "name": name,
                        "state": ended,
                        "lastState": ended,
                        "restartCount": 1,
                        "image": "",
                        "imageID": "",
                        "ready": False,
                    }
                    for name in "ab"
                ]
            },
        },
        strict=False,
    )


def reader(**given: Any) -> Any:
    usual = {
        **{"follow": False, "previous": False, "tail": None, "since": None, "rotated": False, "limit_bytes": None},
        **{"timestamps": False, "prefix": False, "ignore_errors": False},
    }
    return logs._Reader(**(usual | given))


def test_what_cannot_be_read_keeps_no_other_from_being_printed(
    pod: Pod, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    both = [(pod, "a"), (pod, "b")]
    with pytest.raises(Failure, match='the log of container "a" is gone'):
        asyncio.run(reader().read(both))
    asyncio.run(reader(ignore_errors=True, prefix=True).read(both))
    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    assert out == b"one\ntwo\n[pod/web/b] one\n[pod/web/b] two\n"
    assert err.count(b'the log of container "a" is gone') == 1


def test_what_was_rotated_away_and_how_much_of_it(pod: Pod, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Row 114: the growing file alone, unless more is asked for, and no more bytes than are wanted."""
    for given in ({}, {"rotated": True}, {"rotated": True, "tail": 2}, {"limit_bytes": 5}):
        asyncio.run(reader(**given).read([(pod, "b")]))
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\n--\n")
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.split(b"\n--\n")[:4] == [
        b"one\ntwo\n",
        b"zero\none\ntwo\n",
        b"one\ntwo\n",
        b"one\nt",
    ]


def test_who_follows_an_instance_that_has_ended_reads_it_to_its_end(
    pod: Pod, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Row 114: `logs -f -p` prints and ends, as for kubectl."""
    asyncio.run(reader(follow=True, previous=True).read([(pod, "b")]))
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"one\ntwo\n"


def test_since_no_time_at_all_is_from_the_beginning() -> None:
    assert logs._since("0s", "") is None and logs._since("0", "") is None
    assert logs._since("1s", "") is not None
