"""`cp` with files and archives, including archives that a container made to do harm.

Holds: Nothing copied out of a container leaves its destination.
"""

from __future__ import annotations

import errno
import io
import os
import tarfile
from pathlib import Path

import pytest

from syncpod.cli.streams.archives import NotWhatWasAsked, pack, unpack


def packed(source: Path, name: str) -> tuple[bytes, list[str]]:
    told: list[str] = []
    stream = io.BytesIO()
    pack(source, name, stream, told.append)
    return stream.getvalue(), told


def unpacked(archive: bytes, destination: Path, root: str = "./it", name: str = "it") -> list[str]:
    told: list[str] = []
    unpack(io.BytesIO(archive), root, destination, name, told.append)
    return told


def entry(name: str, content: bytes = b"", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size = len(content)
    made.mode = 0o644
    for field, value in more.items():
        setattr(made, field, value)
    return made, content


def directory(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.DIRTYPE, mode=0o755)


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def archive_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def everything(top: Path) -> set[str]:
    return {str(path.relative_to(top)) for path in top.rglob("*")}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with all kinds of files."""
    top = tmp_path / "tree"
    (top / "deep" / "er").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "-n").write_bytes(b"named as an option")
    (top / "deep" / "run").write_text("#!/bin/sh\n")
    (top / "deep" / "run").chmod(0o750)
    (top / "deep" / "er" / ("long" * 40)).write_bytes(os.urandom(300_000))
    (top / "link").symlink_to("deep/run")
    os.link(top / "-n", top / "other-name")
    return top


def test_a_tree_is_packed_and_unpacked_unchanged(tree: Path, tmp_path: Path) -> None:
    archive, told = packed(tree, "it")
    assert told == []
    assert unpacked(archive, tmp_path / "out") == []
    out = tmp_path / "out"
    assert everything(out) == everything(tree)
    for name in ("-n", "other-name", "deep/run", "deep/er/" + "long" * 40):
        assert (out / name).read_bytes() == (tree / name).read_bytes()
    assert (out / "link").readlink() == Path("deep/run")
    assert (out / "deep" / "run").stat().st_mode & 0o777 == 0o750
    assert int((out / "-n").stat().st_mtime) == int((tree / "-n").stat().st_mtime)


def test_a_symlink_named_as_the_source_is_followed(tree: Path) -> None:
    archive, _ = packed(tree / "link", "it")
    with tarfile.open(fileobj=io.BytesIO(archive)) as read:
        (only,) = read.getmembers()
        content = read.extractfile(only)
        assert only.isreg() and content is not None and content.read() == b"#!/bin/sh\n"


def test_special_files_are_skipped_and_named(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    archive, told = packed(tree, "it")
    assert told == [f"{tree / 'pipe'}: neither a file, a directory nor a symlink; left out"]
    with tarfile.open(fileobj=io.BytesIO(archive)) as read:
        assert "it/pipe" not in read.getnames()


def test_a_file_replaces_its_destination_or_goes_into_a_directory(tmp_path: Path) -> None:
    archive = archive_of(entry("./it", b"new"))
    (tmp_path / "old").write_text("much older text")
    (tmp_path / "to-old").symlink_to("old")
    (tmp_path / "there").mkdir()
    for destination in ("to-old", "fresh/file", "there"):
        assert unpacked(archive, tmp_path / destination) == []
    assert (tmp_path / "to-old").is_symlink(), "the person's own link is followed, not replaced"
    for name in ("old", "fresh/file", "there/it"):
        assert (tmp_path / name).read_bytes() == b"new"


def test_directory_contents_are_merged_into_the_destination(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "a").mkdir(parents=True)
    (out / "a" / "x").write_text("old and longer")
    (out / "kept").write_text("kept")
    archive = archive_of(directory("./it"), directory("./it/a"), entry("./it/a/x", b"new"))
    assert unpacked(archive, out) == []
    assert (out / "a" / "x").read_bytes() == b"new"
    assert everything(out) == {"a", "a/x", "kept"}


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param([entry("./it/../../evil", b"!")], id="dots"),
        pytest.param([entry("/evil", b"!")], id="absolute"),
        pytest.param([entry("./its/evil", b"!")], id="beside"),
        pytest.param([symlink("./it/out", ".."), entry("./it/out/evil", b"!")], id="through a link"),
        pytest.param([symlink("./it/out", "{outside}"), entry("./it/out/evil", b"!")], id="through an absolute link"),
        pytest.param(
            [symlink("./it/here", "."), symlink("./it/out", "here/here/../.."), entry("./it/out/evil", b"!")],
            id="through links that each seem to stay",
        ),
        pytest.param([symlink("./it/evil", "../../outside/evil"), entry("./it/evil", b"!")], id="onto a link"),
        pytest.param(
            [entry("./it/name", type=tarfile.LNKTYPE, linkname="./it/../../outside/kept"), entry("./it/name", b"!")],
            id="by another name of a file outside",
        ),
        pytest.param(
            [symlink("./it/d", "../outside"), entry("./it/n", type=tarfile.LNKTYPE, linkname="./it/d/kept")],
            id="by another name through a link",
        ),
    ],
)
def test_no_entry_is_written_outside_the_destination(harm: list[tuple[tarfile.TarInfo, bytes]], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    for info, _ in harm:
        info.linkname = info.linkname.replace("{outside}", str(outside))
    out = tmp_path / "out"
    archive = archive_of(directory("./it"), *harm, entry("./it/last", b"still copied"))
    unpacked(archive, out)
    assert everything(tmp_path) - {f"out/{name}" for name in everything(out)} == {"out", "outside", "outside/kept"}
    assert (outside / "kept").read_text() == "kept" and (outside / "kept").stat().st_nlink == 1
    assert (out / "last").read_bytes() == b"still copied"
    for path in out.rglob("*"):
        assert path.resolve().is_relative_to(out), f"{path} leads out"


def test_links_that_lead_out_and_devices_are_skipped_and_reported(tmp_path: Path) -> None:
    archive = archive_of(
        directory("./it"),
        symlink("./it/up", "../.."),
        symlink("./it/etc", "/etc"),
        symlink("./it/nowhere", "not/there"),
        entry("./it/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    )
    told = unpacked(archive, tmp_path / "out")
    assert [sentence.partition(":")[0] for sentence in told] == ["'null'", "'up'", "'etc'"]
    assert everything(tmp_path / "out") == {"nowhere"}


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


@pytest.mark.parametrize(
    ("entries", "said", "left"),
    [
        pytest.param(
            [symlink("./it/a", "/etc"), hard_link("./it/b", "./it/a"), entry("./it/a", b"x")],
            ["'b'"],
            {"a"},
            id="by another name",
        ),
        pytest.param(
            [
                directory("./it/sub"),
                directory("./it/sub2"),
                symlink("./it/l", "sub"),
                symlink("./it/l/x", "/etc"),
                symlink("./it/l", "sub2"),
            ],
            ["'sub/x'"],
            {"sub", "sub2", "l"},
            id="in a directory to which nothing leads any more",
        ),
        pytest.param(
            [symlink("./it/a", "/etc"), symlink("./it/a", "/etc"), symlink("./it/b", "/etc")],
            ["'a'", "'b'"],
            set(),
            id="twice",
        ),
        pytest.param(
            [
                directory("./it/s"),
                symlink("./it/l", "s"),
                symlink("./it/s/x", "/etc"),
                symlink("./it/l/x", "/etc"),
                symlink("./it/z", "/etc"),
            ],
            ["'s/x'", "'z'"],
            {"s", "l"},
            id="twice by two names",
        ),
        pytest.param(
            [symlink("./it/far", f"{'y' * 300}/x"), symlink("./it/z", "s/../..")],
            ["'far'"],
            {"z"},
            id="where it cannot be known",
        ),
    ],
)
def test_a_relative_link_is_judged_from_its_own_directory(
    entries: list[tuple[tarfile.TarInfo, bytes]], said: list[str], left: set[str], tmp_path: Path
) -> None:
    told = unpacked(archive_of(directory("./it"), *entries), tmp_path / "out")
    assert [sentence.partition(":")[0] for sentence in told] == said
    assert everything(tmp_path / "out") == left


def test_existing_links_in_the_destination_are_kept_and_not_followed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "deep").mkdir(parents=True)
    (out / "own").symlink_to("/etc")
    (out / "deep" / "own").symlink_to("../../..")
    archive = archive_of(directory("./it"), hard_link("./it/b", "./it/own"), symlink("./it/deep/x", "own/.."))
    told = unpacked(archive, out)
    assert [sentence.partition(":")[0] for sentence in told] == ["'b'", "'deep/x'"]
    assert everything(out) == {"deep", "own", "deep/own"}


@pytest.mark.parametrize(
    ("rest", "length"),
    [
        pytest.param([directory("./it/d"), symlink("./it/d", "x")], None, id="a directory in the way"),
        pytest.param([entry("./it/full", bytes(100_000))], 50_000, id="a cut archive"),
    ],
)
def test_a_failed_copy_leaves_no_link_that_leads_out(
    rest: list[tuple[tarfile.TarInfo, bytes]], length: int | None, tmp_path: Path
) -> None:
    archive = archive_of(directory("./it"), symlink("./it/etc", "/etc"), symlink("./it/stays", "."), *rest)
    with pytest.raises((IsADirectoryError, tarfile.ReadError)):
        unpacked(archive[:length], tmp_path / "out")
    left = everything(tmp_path / "out")
    assert "etc" not in left and "stays" in left


def test_a_link_that_cannot_be_removed_is_reported_and_the_others_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.unlink

    def unlink(path: str, *, dir_fd: int | None = None) -> None:
        if path == "shut" and os.path.lexists(tmp_path / "out" / "shut"):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    archive = archive_of(directory("./it"), symlink("./it/shut", "/etc"), symlink("./it/z", "/etc"))
    told = unpacked(archive, tmp_path / "out")
    assert told[0].endswith("and stays: Operation not permitted") and told[1].endswith("left out")
    assert everything(tmp_path / "out") == {"shut"}


def test_unpacked_files_are_writable_by_the_owner_only_and_never_setuid(tmp_path: Path) -> None:
    archive = archive_of(directory("./it"), entry("./it/tool", b"!", mode=0o6777), entry("./it/shut", b"!", mode=0))
    unpacked(archive, tmp_path / "out")
    assert (tmp_path / "out" / "tool").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "out" / "shut").stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize(
    ("archive", "sentence"),
    [
        (archive_of(), "empty"),
        (archive_of(entry("./other", b"")), "'./other'"),
        (archive_of(symlink("./it", "/etc/shadow")), "symlink to '/etc/shadow': copy what that names"),
        (archive_of(entry("./it", type=tarfile.FIFOTYPE)), "neither"),
    ],
)
def test_unrequested_archive_entries_are_refused(archive: bytes, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(NotWhatWasAsked, match=sentence):
        unpacked(archive, tmp_path / "out")
    assert everything(tmp_path) == set()


def test_a_truncated_archive_is_an_error(tmp_path: Path) -> None:
    whole = archive_of(directory("./it"), entry("./it/x", bytes(100_000)))
    with pytest.raises(tarfile.ReadError):
        unpacked(whole[:50_000], tmp_path / "out")


def header(name: str, kind: bytes, size: int = 0, *, extended: bool = False) -> bytes:
    """One header with any fields; with `extended`, the map of a sparse file continues after it."""
    info, _ = entry(name, type=kind)
    info.size = size
    raw = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    if extended:
        raw[482] = 1
        raw[148:156] = b" " * 8
        raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


class Endless(io.RawIOBase):
    """A stream that begins with these bytes and then never ends."""

    def __init__(self, begins: bytes, goes_on: bytes) -> None:
        self._left, self._goes_on, self.sent = begins, goes_on, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        assert 0 <= size <= 4 << 20, "no more is asked for at once"
        self.sent += size
        assert self.sent <= 8 << 20, "no more is taken"
        while len(self._left) < size:
            self._left += self._goes_on
        given, self._left = self._left[:size], self._left[size:]
        return given


SPARSE_MAP = (b"%011o\0%011o\0" % (0, 1) * 21 + b"\1").ljust(512, b"\0")


@pytest.mark.parametrize(
    ("begins", "goes_on", "sentence"),
    [
        (header("long", tarfile.GNUTYPE_LONGNAME, 6 << 30), b"a" * 4096, "has 6442450944 bytes; 1048576 are the most"),
        (header("long", tarfile.GNUTYPE_LONGLINK, 1 << 21), b"a" * 4096, "has 2097152 bytes"),
        (header("pax", tarfile.XHDTYPE, 6 << 30), b"30 comment=xxxxxxxxxxxxxxxxxxxx\n", "has 6442450944 bytes"),
        (header("pax", tarfile.XGLTYPE, 6 << 30), b"30 comment=xxxxxxxxxxxxxxxxxxxx\n", "has 6442450944 bytes"),
        (header("./it/s", tarfile.GNUTYPE_SPARSE, extended=True), SPARSE_MAP, "a sparse entry"),
    ],
)
def test_no_header_is_taken_without_end(begins: bytes, goes_on: bytes, sentence: str, tmp_path: Path) -> None:
    """Before, all of it was held in memory: 2 GB within 15 s."""
    stream = Endless(header("./it", tarfile.DIRTYPE) + begins, goes_on)
    with pytest.raises(NotWhatWasAsked, match=sentence):
        unpack(stream, "./it", tmp_path / "out", "it", lambda _: None)  # type: ignore[arg-type]  # all that it reads


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"GNU.sparse.map": "0,1", "GNU.sparse.size": "9999999999999"}, "a sparse entry"),
        ({"GNU.sparse.map": "0,x", "GNU.sparse.size": "5"}, "a sparse entry"),
        ({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, "a sparse entry"),
        ({"GNU.sparse.size": "5"}, "a sparse entry"),
        ({"GNU.sparse.realsize": "x"}, "cannot be read"),
    ],
)
def test_no_few_bytes_stand_for_a_large_file(headers: dict[str, str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(NotWhatWasAsked, match=sentence):
        unpacked(archive_of(directory("./it"), entry("./it/f", b"x", pax_headers=headers)), tmp_path / "out")
    assert everything(tmp_path / "out") == set()


def test_thousands_of_names_for_one_entry_are_refused(tmp_path: Path) -> None:
    name = header("name", tarfile.GNUTYPE_LONGNAME, 4) + b"abc".ljust(512, b"\0")
    with pytest.raises(NotWhatWasAsked, match="cannot be read"):
        unpacked(header("./it", tarfile.DIRTYPE) + name * 3000 + bytes(1024), tmp_path / "out")


@pytest.mark.parametrize("time", ["nan", "inf", "1e300", "-1e30"])
def test_a_time_that_is_none_is_left_out(time: str, tmp_path: Path) -> None:
    assert unpacked(archive_of(directory("./it"), entry("./it/f", b"x", pax_headers={"mtime": time})), tmp_path) == []
    assert (tmp_path / "f").read_bytes() == b"x"


def test_a_name_that_no_file_can_have_is_left_out_and_named(tmp_path: Path) -> None:
    names: list[dict[str, object]] = [{"path": "./it/a\0b"}, {"linkpath": "a\0b"}]
    entries = [entry("./it/f", pax_headers=each) for each in names]
    entries[1][0].type = tarfile.SYMTYPE
    said = unpacked(archive_of(directory("./it"), *entries), tmp_path)
    assert said == [f"{name!r}: no file can have this name or target; left out" for name in ("a\0b", "f")]
    assert everything(tmp_path) == set()
