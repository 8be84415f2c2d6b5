"""`load`: images from files into the embedded runtime of a state directory, whether the runtime runs or not."""

from __future__ import annotations

from pathlib import Path

from syncpod.cli.machine import runtime_process
from tests.cli.conftest import Result, program
from tests.runtime.image_files import Layout, entry, layer, write_tar


def test_load_loads_an_image_and_refuses_a_wrong_file_in_one_sentence(tmp_path: Path) -> None:
    files = layer(entry("hello", b"hello\n"))
    good = write_tar(tmp_path / "good.tar", Layout((files,)).files())
    wrong = write_tar(tmp_path / "wrong.tar", {"index.json": b"[]"})
    load = ("load", "--state-dir", str(tmp_path / "state"))
    assert program(*load, str(good)) == Result(0, "Loaded image: example.test/app:1\n", "")
    assert program(*load, str(good), "--name", "app:2") == Result(0, "Loaded image: docker.io/library/app:2\n", "")
    assert program(*load, str(wrong)) == Result(2, "", f"syncpod: {wrong}: index.json: must be a JSON object\n")
    roots = runtime_process.directory(tmp_path / "state") / "images" / "roots"
    assert [each.read_text() for each in roots.glob("*/hello")] == ["hello\n"]
