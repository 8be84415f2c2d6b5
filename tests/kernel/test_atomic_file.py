from __future__ import annotations

import stat
from pathlib import Path

import pytest

from syncpod.kernel.atomic_file import replace_file


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_has_the_new_content_and_is_its_owners_alone(durable: bool, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text("old")
    file.chmod(0o644)
    replace_file(file, "née", durable=durable)
    assert file.read_bytes() == "née".encode()
    replace_file(file, b"\xff", durable=durable)
    assert file.read_bytes() == b"\xff"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_what_a_crash_or_somebody_else_left_as_a_draft_is_not_written_through(tmp_path: Path) -> None:
    file, treasure = tmp_path / "record.json", tmp_path / "treasure"
    treasure.write_text("gold")
    (tmp_path / ".record.json.new").symlink_to(treasure)
    replace_file(file, "new", durable=False)
    assert (file.read_text(), treasure.read_text()) == ("new", "gold")
    assert not file.is_symlink()


@pytest.mark.parametrize("durable", [True, False])
def test_what_cannot_be_replaced_stays_and_leaves_no_draft(durable: bool, tmp_path: Path) -> None:
    (tmp_path / "record.json" / "full").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "record.json", "new", durable=durable)
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "gone" / "record.json", "new", durable=durable)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_reader_never_sees_half_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "record.json"
    file.write_text("old")
    seen = []

    def replace(draft: Path, target: Path) -> None:
        seen.append((target.read_text(), draft.read_text()))
        draft.rename(target)

    monkeypatch.setattr(Path, "replace", replace)
    replace_file(file, "new", durable=True, draft=tmp_path / "elsewhere")
    assert (seen, file.read_text()) == ([("old", "new")], "new")
