"""What commands refuse by the flag or the path, before anybody is asked anything."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from syncpod.cli.main import run


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("port-forward", "web", "80", "--address", ""), "--address: name where to listen"),
        (("port-forward", "web", "80", "--address", ",", "--address", ""), "--address: name where to listen"),
        (("debug", "web", "--image", "i", "--share-processes"), "--share-processes needs --copy-to"),
        (("debug", "web", "--image", "i", "--no-share-processes"), "--no-share-processes needs --copy-to"),
        (("cp", "--retries", "0", "/etc/hosts", "web:/tmp"), "--retries is for a copy out of a container"),
        (("cp", "--no-preserve", "web:/etc/hosts", "hosts"), "--no-preserve is for a copy into a container"),
        (("cp", "/etc/hosts/none", "web:/tmp"), "/etc/hosts/none: there is no such file or directory here"),
        (("cp", f"/{'x' * 300}", "web:/tmp"), f"/{'x' * 300}: File name too long"),
        (("wait", "web", "--for=condition=Ready", "--timeout", "99999999999h"), "--timeout: '99999999999h' is too"),
        (("logs", "web", "--since", "20000000h"), "--since: '20000000h' is too long a duration"),
    ],
)
def test_what_has_no_effect_or_cannot_be_is_refused_by_name(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"syncpod: {sentence}") and said.err.count("\n") == 1 and said.out == ""


def test_a_source_that_may_not_be_looked_at_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if str(path) == "/shut/file":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    assert run(("cp", "/shut/file", "web:/tmp")) == 2
    assert capsys.readouterr().err == "syncpod: /shut/file: Permission denied\n"
