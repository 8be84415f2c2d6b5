from __future__ import annotations

import stat
from pathlib import Path

import pytest

from syncpod.kernel.atomic_file import replace_file


@pytest.mark.parametrize("durable", [True, False])
def test_a_replaced_file_has_the_new_content_and_mode_0600(durable: bool, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text("old")
    file.chmod(0o644)
    replace_file(file, "née", durable=durable)
    assert file.read_bytes() == "née".encode()
    replace_file(file, b"\xff", durable=durable)
    assert file.read_bytes() == b"\xff"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_symlink_in_place_of_the_draft_is_not_followed(tmp_path: Path) -> None:
    file, treasure = tmp_path / "record.json", tmp_path / "treasure"
    treasure.write_text("gold")
    (tmp_path / ".record.json.new").symlink_to(treasure)
    replace_file(file, "new", durable=False)
    assert (file.read_text(), treasure.read_text()) == ("new", "gold")
    assert not file.is_symlink()


@pytest.mark.parametrize("durable", [True, False])
def test_a_failed_replacement_leaves_the_old_file_and_no_draft(durable: bool, tmp_path: Path) -> None:
    (tmp_path / "record.json" / "full").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "record.json", "new", durable=durable)
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "gone" / "record.json", "new", durable=durable)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_reader_sees_the_old_or_the_new_content_and_never_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "record.json"
    file.write_text("old")
    seen = []

    def replace(draft: Path, target: Path) -> None:
        seen.append((target.read_text(), draft.read_text()))
        draft.rename(target)

    monkeypatch.setattr(Path, "replace", replace)
    replace_file(file, "new", durable=True, draft=tmp_path / "elsewhere")
    assert (seen, file.read_text()) == ([("old", "new")], "new")
