"""Termination messages, from a container's file or its log."""

from __future__ import annotations

import os
import socket
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from syncpod.cri.port import ContainerAnswer, ContainerMount
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.node.secret_values import WITHHELD
from syncpod.node.termination_message import make_message_file, termination_message, wants_message
from syncpod.redaction import of_process
from syncpod.translation import names

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def ended(place: Path | None, *, policy: str = "File", path: str = "/dev/termination-log", **more: Any) -> Any:
    """The status of a container that has ended, with its message file at `place`."""
    annotations = {
        names.CONTAINER_TERMINATION_MESSAGE_PATH_ANNOTATION: path,
        names.CONTAINER_TERMINATION_MESSAGE_POLICY_ANNOTATION: policy,
    }
    mounts = (ContainerMount(path, str(place), readonly=False, recursive_read_only=False),) if place is not None else ()
    values: dict[str, Any] = {
        "id": "c1", "name": "web", "state": "exited", "created_at": NOW, "started_at": NOW, "finished_at": NOW,
        "reason": "Completed",
    }  # fmt: skip
    return ContainerAnswer(ObservedContainer(**{**values, **more}), labels={}, annotations=annotations, mounts=mounts)


def message_of(answer: ContainerAnswer, *, withholds: bool = False) -> str:
    ended_as = answer.container.exit
    assert ended_as is not None
    return termination_message(answer, ended_as, lambda: withholds)


def log(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"2026-11-21T00:00:00.000000001Z {line}\n" for line in lines))
    return path


def test_the_file_content_is_the_termination_message(tmp_path: Path) -> None:
    place = tmp_path / "00000000"
    make_message_file(place)
    place.write_text("all done")
    assert message_of(ended(place)) == "all done"
    assert message_of(ended(place, message="runtime says", reason="Error")) == "runtime says: all done"


def test_only_the_end_of_a_long_message_is_read(tmp_path: Path) -> None:
    """Row 101: 4096 bytes."""
    place = tmp_path / "m"
    place.write_bytes(b"x" * 10_000 + b"end")
    message = message_of(ended(place))
    assert (len(message), message.endswith("end")) == (4096, True)


def test_invalid_utf_8_in_a_termination_message_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "m"
    place.write_bytes(b"a\xff\xfeb")
    assert message_of(ended(place)) == "a\ufffd\ufffdb"


@pytest.mark.parametrize(
    ("policy", "code", "reason", "falls_back"),
    [
        ("FallbackToLogsOnError", 1, "Error", True),
        ("FallbackToLogsOnError", 0, "Completed", False),
        ("FallbackToLogsOnError", 128, "ContainerCannotRun", False),
        ("File", 1, "Error", False),
    ],
)
def test_an_empty_file_falls_back_to_the_log_of_a_failed_container(
    tmp_path: Path, policy: str, code: int, reason: str, falls_back: bool
) -> None:
    """Row 101: FallbackToLogsOnError."""
    place = tmp_path / "m"
    make_message_file(place)
    path = log(tmp_path / "0.log", "stdout F one", "stderr P tw", "stderr F o")
    status = ended(place, policy=policy, exit_code=code, reason=reason, log_path=str(path))
    assert message_of(status) == ("one\ntwo\n" if falls_back else "")


def test_the_fallback_is_limited_to_the_last_80_lines_and_2048_bytes(tmp_path: Path) -> None:
    """Row 101: 80 lines, 2048 bytes."""
    many = log(tmp_path / "many.log", *(f"stdout F {number}" for number in range(1000)))
    status = ended(None, policy="FallbackToLogsOnError", exit_code=1, reason="Error", log_path=str(many))
    assert message_of(status).splitlines() == [str(number) for number in range(920, 1000)]
    wide = log(tmp_path / "wide.log", f"stdout F {'x' * 5000}end")
    status = ended(None, policy="FallbackToLogsOnError", exit_code=1, reason="Error", log_path=str(wide))
    assert len(message_of(status)) == 2048


def test_a_message_that_cannot_be_read_is_reported_or_left_out(tmp_path: Path) -> None:
    assert message_of(ended(tmp_path / "gone")) == ""
    assert message_of(ended(None)) == ""
    link = tmp_path / "link"
    link.symlink_to("/etc/hostname")
    assert message_of(ended(link)).startswith("Error on reading termination log")
    os.mkfifo(tmp_path / "fifo")
    writer = os.open(tmp_path / "fifo", os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, b"from a pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for place in (link, tmp_path / "fifo", tmp_path / "socket", tmp_path, Path("/dev/zero")):
            said = f"Error on reading termination log {place}: not a regular file"
            assert message_of(ended(place)) == said
            failed = ended(None, policy="FallbackToLogsOnError", exit_code=1, reason="Error", log_path=str(place))
            assert message_of(failed) == "Error on reading termination message from logs: not a regular file"
    os.close(writer)


def test_the_message_is_read_only_of_an_ended_container(tmp_path: Path) -> None:
    assert wants_message(ended(tmp_path))
    assert not wants_message(ended(tmp_path, state="running"))
    assert not wants_message(ended(tmp_path, path=""))


def test_the_message_file_is_world_writable_and_old_ones_are_removed(tmp_path: Path) -> None:
    for restart in range(6):
        make_message_file(tmp_path / "web" / f"{restart:08x}")
    kept = sorted(path.name for path in (tmp_path / "web").iterdir())
    assert kept == ["00000003", "00000004", "00000005"]
    mode = (tmp_path / "web" / "00000005").stat().st_mode
    assert stat.S_IMODE(mode) == 0o666
    (tmp_path / "web" / "00000005").write_text("kept")
    make_message_file(tmp_path / "web" / "00000005")
    assert (tmp_path / "web" / "00000005").read_text() == "kept", "a start that is repeated takes nothing away"


def test_an_impossible_message_path_is_reported(tmp_path: Path) -> None:
    """A container that could not be started for its log's sake still names it so."""
    more: dict[str, Any] = {"exit_code": 128, "reason": "StartError", "log_path": f"{tmp_path}/a\0b"}
    told = message_of(ended(None, policy="FallbackToLogsOnError", **more))
    assert told == "Error on reading termination message from logs: Invalid argument"
    assert message_of(ended(Path("/a\0b"))).endswith("Invalid argument")


def test_a_symlink_to_the_log_of_another_pod_is_not_followed(tmp_path: Path) -> None:
    """A pod that mounts the log directory may put a link in place of its own."""
    (theirs := tmp_path / "default_db_1" / "main").mkdir(parents=True)
    (own := tmp_path / "default_web_2").mkdir()
    log(theirs / "0.log", "stdout F password")
    (own / "main").symlink_to(theirs)
    status = ended(None, policy="FallbackToLogsOnError", exit_code=1, reason="Error", log_path=str(own / "main/0.log"))
    assert message_of(status) == "Error on reading termination message from logs: Not a directory"


def test_a_secret_whose_beginning_is_cut_off_is_hidden(tmp_path: Path) -> None:
    of_process.add(["hunter2"])
    place, said = tmp_path / "m", log(tmp_path / "0.log", "stdout F hunter2" + "x" * 2045)
    place.write_text("hunter2" + "x" * 4093)
    assert message_of(ended(place)) == "***" + "x" * 4093
    place.write_text("hunter2" + "x" * 4092)
    assert message_of(ended(place)) == "***" + "x" * 4092
    place.write_text("")
    failed = ended(place, policy="FallbackToLogsOnError", exit_code=1, log_path=str(said))
    assert message_of(failed) == "**" + "x" * 2045 + "\n"


def test_what_follows_a_carriage_return_in_the_log_is_kept(tmp_path: Path) -> None:
    place, said = tmp_path / "m", tmp_path / "0.log"
    place.write_text("")
    said.write_bytes(b"2026-11-21T00:00:00Z stdout F 10%\r20%\rfailed\x0b\xff\n")
    failed = ended(place, policy="FallbackToLogsOnError", exit_code=1, log_path=str(said))
    assert message_of(failed) == "10%\r20%\rfailed\x0b\ufffd\n"


def test_what_a_container_has_said_is_withheld_if_values_that_it_was_given_are_not_known(tmp_path: Path) -> None:
    place, said = tmp_path / "m", log(tmp_path / "0.log", "stdout F old-password")
    failed = ended(place, policy="FallbackToLogsOnError", exit_code=1, reason="Error", log_path=str(said))
    for written in ("old-password", ""):
        place.write_text(written)
        assert message_of(failed, withholds=True) == WITHHELD
    assert message_of(ended(place), withholds=True) == "", "a container that has said nothing keeps nothing back"
