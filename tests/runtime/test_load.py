"""Images from files: their layers, and the refusal of damaged, foreign and hostile files.

Holds: The files of a loaded image are in one directory, which is complete and never changes.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from syncpod.kernel.tree_removal import remove_tree
from syncpod.runtime.images.archive import ArchiveInvalid, Descriptor
from syncpod.runtime.images.config import ConfigInvalid, ImageConfig, read_config, stop_signal
from syncpod.runtime.images.inventory import Image, ImageStore
from syncpod.runtime.images.layers import layer_tar
from syncpod.runtime.images.unpacking import Unpacking
from syncpod.runtime.load import CannotLoad, load, main
from syncpod.runtime.processes.process_spec import stop_signal as number_of
from tests.runtime.image_files import Layout, entry, hard_link, layer, symlink, write_directory, write_tar

HELLO = layer(entry("bin"), entry("bin/hello", b"#!/bin/sh\n", mode=0o4755))


def loaded(state: Path, file: Path, name: str = "") -> tuple[Image, Path]:
    """Load a file with one image; return the image and the directory of its files."""
    said = list(load(state, file, name))
    store = ImageStore(state / "images")
    image = store.find(said[-1].removeprefix("Loaded image: "))
    assert image is not None and image.content is not None
    return image, store.root_directory(image.content.root)


def unpacked(tmp_path: Path, *layers: bytes) -> Path:
    return loaded(tmp_path / "state", write_tar(tmp_path / "image.tar", Layout(layers).files()))[1]


def refusal(tmp_path: Path, layout: Layout, name: str = "") -> str:
    """The reason why an image is refused; asserts that no files of it are left."""
    file = write_tar(tmp_path / "image.tar", layout.files())
    with pytest.raises(CannotLoad) as caught:
        list(load(tmp_path / "state", file, name))
    roots = tmp_path / "state" / "images" / "roots"
    assert not roots.exists() or [each.name for each in roots.iterdir()] == ["lock"]
    assert list((tmp_path / "state").glob("images/*.json")) == []
    return str(caught.value).removeprefix(f"{file}: ")


# --- what is read -----------------------------------------------------------------------------------------------------

FILES: dict[str, Callable[[Path, Layout], Path]] = {
    "a layout": lambda place, layout: write_directory(place / "layout", layout.files()),
    "a tar of a layout": lambda place, layout: write_tar(place / "image.tar", layout.files()),
    "a compressed tar": lambda place, layout: write_tar(place / "image.tgz", layout.files(), "w:gz"),
    "what docker saves": lambda place, layout: write_tar(place / "image.tar", layout.docker_files()),
}


@pytest.mark.parametrize("write", FILES.values(), ids=FILES.keys())
def test_an_image_is_loaded_from_each_format(write: Callable[[Path, Layout], Path], tmp_path: Path) -> None:
    config = {"Env": ["A=1"], "Entrypoint": ["/bin/hello"], "Cmd": ["x"], "User": "5:6", "WorkingDir": "/w"}
    image, root = loaded(tmp_path / "state", write(tmp_path, Layout((HELLO,), config | {"StopSignal": "SIGQUIT"})))
    assert (root / "bin/hello").read_text() == "#!/bin/sh\n"
    assert str(image.reference) == "example.test/app:1"
    assert image.content is not None and image.size > 0
    assert image.content.config == ImageConfig((("A", "1"),), ("/bin/hello",), ("x",), "5:6", "/w", "SIGQUIT")


def test_the_image_for_this_platform_is_chosen_and_layers_may_be_uncompressed(tmp_path: Path) -> None:
    layout = Layout((HELLO,), nested=True, compress=False)
    _, root = loaded(tmp_path / "state", write_tar(tmp_path / "image.tar", layout.files()))
    assert (root / "bin/hello").exists()


def test_an_image_may_be_loaded_twice_and_under_a_given_name(tmp_path: Path) -> None:
    file = write_tar(tmp_path / "image.tar", Layout((HELLO,), name="1.2").files())
    with pytest.raises(CannotLoad, match=r'called by a tag alone, "1.2": name it with --name NAME:1.2'):
        list(load(tmp_path / "state", file))
    first, root = loaded(tmp_path / "state", file, "app:1.2")
    second, again = loaded(tmp_path / "state", file, "app")
    assert [str(each.reference) for each in (first, second)] == [
        "docker.io/library/app:1.2",
        "docker.io/library/app:latest",
    ]
    assert (first.id, root) == (second.id, again)
    names = ImageStore(tmp_path / "state/images").names_of(first)
    assert {each.reference.tag for each in names} == {"1.2", "latest"}


def test_a_store_sees_images_loaded_by_another_process_and_removes_all_names_at_once(tmp_path: Path) -> None:
    file = write_tar(tmp_path / "image.tar", Layout((HELLO,)).files())
    (tmp_path / "state").mkdir()
    store = ImageStore(tmp_path / "state/images")
    command = [sys.executable, "-m", "syncpod.runtime.load", "--state-dir", str(tmp_path / "state"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "Loaded image: example.test/app:1\n"
    list(load(tmp_path / "state", file, "app:2"))
    found = store.find("app:2")
    assert found is not None and found == store.pull(found.reference)
    store.remove(found)
    assert list(store) == []
    assert store.find("example.test/app:1") is None


def test_a_killed_load_leaves_no_image(tmp_path: Path) -> None:
    layout = write_directory(tmp_path / "layout", Layout((HELLO,)).files())
    dies = "it.Unpacking.finish = lambda _: os.kill(os.getpid(), 9)"
    code = f"import os; from syncpod.runtime import load as it; {dies}; it.main(['--state-dir', *sys.argv[1:]])"
    command = [sys.executable, "-c", f"import sys; {code}", str(tmp_path / "state"), str(layout)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    roots = tmp_path / "state/images/roots"
    assert [each.name for each in roots.iterdir() if each.name.startswith("unfinished-")] != []
    assert list(ImageStore(tmp_path / "state/images")) == []
    loaded(tmp_path / "state", layout)
    assert [each.name for each in roots.iterdir() if each.name.startswith("unfinished-")] == []


# --- layers -----------------------------------------------------------------------------------------------------------


def test_layers_are_stacked_and_whiteouts_hide_lower_files(tmp_path: Path) -> None:
    root = unpacked(
        tmp_path,
        layer(
            entry("a"), entry("a/old", b"1"), entry("a/gone", b"1"), entry("b"), entry("b/x", b"1"), entry("c", b"1")
        ),
        layer(
            entry("a/.wh.gone", b""),
            entry("a/old", b"2"),
            entry("b/new", b"2"),
            entry("b/.wh..wh..opq", b""),
            entry("c"),
            entry("c/inside", b"2"),
        ),
    )
    files = {str(each.relative_to(root)): each.read_text() for each in root.rglob("*") if each.is_file()}
    assert files == {"a/old": "2", "b/new": "2", "c/inside": "2"}


def test_absolute_links_are_resolved_in_the_image_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = unpacked(
        tmp_path,
        layer(
            symlink("var", str(outside)),
            symlink("up", "../../../.."),
            entry("var/log", b"inside"),
            entry("up/top", b"inside"),
            entry("data", b"shared"),
            hard_link("same", "/data"),
            symlink("passwd", "/etc/passwd"),
        ),
    )
    assert list(outside.iterdir()) == []
    assert (root / str(outside)[1:] / "log").read_text() == "inside"
    assert (root / "top").read_text() == "inside"
    assert (root / "same").stat().st_ino == (root / "data").stat().st_ino
    assert (root / "passwd").readlink() == Path("/etc/passwd")


def test_a_link_is_replaced_by_an_entry_of_a_later_layer(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    root = unpacked(tmp_path, layer(symlink("x", str(outside))), layer(entry("x", b"theirs")))
    assert (outside.read_text(), (root / "x").read_text()) == ("mine", "theirs")


REPLACED = {
    "an entry": (layer(entry("a"), entry("a/etc", mode=0o777, uid=1234, gid=1234, mtime=1000)),),
    "a whiteout": (
        layer(entry("a"), entry("a/etc", mode=0o777, uid=1234, gid=1234, mtime=1000)),
        layer(entry(".wh.a", b"")),
    ),
    "an opaque whiteout": (
        layer(entry("a"), entry("a/etc", mode=0o777, uid=1234, gid=1234, mtime=1000)),
        layer(entry(".wh..wh..opq", b"")),
    ),
}


def made(root: Path, *layers: bytes) -> Unpacking:
    """An unfinished unpacking of layers."""
    root.mkdir()
    unpacking = Unpacking(root, privileged=os.geteuid() == 0)
    for content in layers:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            unpacking.lay(tar)
    return unpacking


def likeness(path: Path) -> tuple[int, int, int, int]:
    found = path.stat()
    return found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns


@pytest.mark.parametrize("layers", REPLACED.values(), ids=REPLACED.keys())
def test_a_link_that_replaces_a_directory_is_not_followed_by_removal(layers: tuple[bytes, ...], tmp_path: Path) -> None:
    (tmp_path / "outside/etc").mkdir(parents=True)
    before = likeness(tmp_path / "outside"), likeness(tmp_path / "outside/etc")
    made(tmp_path / "root", *layers, layer(symlink("a", str(tmp_path / "outside")))).finish()
    assert (likeness(tmp_path / "outside"), likeness(tmp_path / "outside/etc")) == before
    assert (tmp_path / "root/a").readlink() == tmp_path / "outside"


def test_a_directory_that_replaces_another_does_not_inherit_its_attributes(tmp_path: Path) -> None:
    before = layer(entry("a"), entry("a/b", mode=0o700, mtime=1000))
    made(tmp_path / "root", before, layer(entry(".wh.a", b"")), layer(entry("a/b/file", b""))).finish()
    assert stat.S_IMODE((tmp_path / "root/a/b").stat().st_mode) == 0o755


@pytest.mark.parametrize("replaced", ["a", "a/etc"])
def test_unpacking_does_not_follow_a_link_planted_meanwhile(replaced: str, tmp_path: Path) -> None:
    (tmp_path / "outside/etc").mkdir(parents=True)
    before = likeness(tmp_path / "outside"), likeness(tmp_path / "outside/etc")
    unpacking = made(tmp_path / "root", *REPLACED["an entry"])
    remove_tree(tmp_path / "root" / replaced)
    (tmp_path / "root" / replaced).symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        unpacking.finish()
    assert (likeness(tmp_path / "outside"), likeness(tmp_path / "outside/etc")) == before


def test_modes_times_and_owners_are_unpacked(tmp_path: Path) -> None:
    closed = entry("closed", mode=0o500, mtime=1000)
    root = unpacked(tmp_path, layer(closed, entry("closed/suid", b"", mode=0o4755, uid=7, gid=8, mtime=2000)))
    directory, file = (root / "closed").stat(), (root / "closed/suid").stat()
    assert (stat.S_IMODE(directory.st_mode), directory.st_mtime) == (0o500, 1000)
    if os.geteuid() == 0:
        assert (stat.S_IMODE(file.st_mode), file.st_uid, file.st_gid, file.st_mtime) == (0o4755, 7, 8, 2000)
    else:
        assert (stat.S_IMODE(file.st_mode), file.st_uid) == (0o755, os.geteuid())


def test_devices_and_overlay_attributes_of_an_image_are_harmless(tmp_path: Path) -> None:
    hidden = entry("hidden", type=tarfile.CHRTYPE)
    opaque = entry("kept", b"", pax_headers={"SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.user.k": "v"})
    root = unpacked(tmp_path, layer(hidden, opaque))
    assert not (root / "hidden").exists()
    assert os.listxattr(root / "kept") in ([], ["user.k"])  # Not every file system has them.


def test_without_root_all_files_belong_to_the_user_and_privileged_entries_are_skipped(tmp_path: Path) -> None:
    content = layer(
        entry("suid", b"", mode=0o6755, uid=7, gid=8, pax_headers={"SCHILY.xattr.security.capability": "x"}),
        entry("dev"),
        entry("dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        entry("closed", mode=0o000),
        entry("closed/inside", b"x"),
    )
    unpacking = Unpacking(tmp_path, privileged=False)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        unpacking.lay(tar)
    unpacking.finish()
    found = (tmp_path / "suid").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o755, os.geteuid(), os.getegid())
    assert os.listxattr(tmp_path / "suid") == []
    assert (list((tmp_path / "dev").iterdir()), unpacking.left_out) == ([], 1)
    assert stat.S_IMODE((tmp_path / "closed").stat().st_mode) == 0
    remove_tree(tmp_path / "closed")


# --- what is refused --------------------------------------------------------------------------------------------------

HOSTILE = {
    "a way out": (layer(entry("../out", b"")), "../out: leads out of the image"),
    "a way out further on": (layer(entry("a/../../out", b"")), "a/../../out: leads out of the image"),
    "a link out": (layer(hard_link("x", "../../../etc/passwd")), "x: leads out of the image"),
    "a link to nothing": (layer(hard_link("x", "/etc/shadow")), "x: no such file or directory"),
    "a link through a link": (
        layer(symlink("etc", "/etc"), hard_link("x", "etc/passwd")),
        "x: would lie in what is not a directory: too many symbolic links",
    ),
    "a file as a directory": (
        layer(entry("a", b""), entry("a/b", b"")),
        "a/b: would lie in what is not a directory: /a",
    ),
    "links in a circle": (
        layer(symlink("a", "b"), symlink("b", "a"), entry("a/x", b"")),
        "a/x: would lie in what is not a directory: too many symbolic links",
    ),
    "a file as the root": (layer(entry("./", b"x")), "./: stands for the root, and is not a directory"),
    "an owner that is none": (
        layer(entry("x", b"", uid=1 << 40)),
        "x: belongs to 1099511627776:0, which is not a valid user and group",
    ),
    "a name too long": (layer(entry("x" * 300, b"")), f"{'x' * 300}: file name too long"),
    "a nameless whiteout": (layer(entry(".wh...", b"")), ".wh...: hides nothing that has a name"),
}


@pytest.mark.parametrize(("content", "sentence"), HOSTILE.values(), ids=HOSTILE.keys())
def test_an_invalid_layer_is_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, Layout((content,))) == sentence


def test_content_that_does_not_match_its_digest_is_refused(tmp_path: Path) -> None:
    layout = Layout((HELLO,))
    for wrong in [name for name in layout.files() if name.startswith("blobs/")]:
        files = layout.files()
        files[wrong] = files[wrong][:-1] + bytes([files[wrong][-1] ^ 1])
        file = write_tar(tmp_path / "spoilt.tar", files)
        with pytest.raises(CannotLoad, match=f"{wrong}: is (not what it should be|damaged)"):
            list(load(tmp_path / "state", file))
        files[wrong] += b"more"
        with pytest.raises(CannotLoad, match=rf"{wrong}: (has \d+ bytes, not|is )"):
            list(load(tmp_path / "state", write_tar(tmp_path / "spoilt.tar", files)))
        del files[wrong]
        with pytest.raises(CannotLoad, match=f"has no {wrong}"):
            list(load(tmp_path / "state", write_tar(tmp_path / "spoilt.tar", files)))
    assert list((tmp_path / "state").glob("images/*.json")) == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a layer of another digest": ({"diff_ids": (f"sha256:{'0' * 64}",)}, "is not what it should be: its digest is"),
    "too few digests": ({"diff_ids": ()}, "rootfs.diff_ids: must name each of the image's 1 layers"),
    "a digest of no kind": ({"diff_ids": ("md5:0",)}, "'md5:0' is not a digest by SHA-256 or SHA-512"),
    "another machine's": ({"platform": {"os": "linux", "architecture": "other"}}, "has no image for linux/"),
    "another system's": ({"platform": {"os": "windows", "architecture": "amd64"}}, "has no image for linux/"),
    "a variable without a value": ({"config": {"Env": ["A"]}}, "config.Env[0]: must be NAME=value"),
    "a command that is none": ({"config": {"Cmd": "sh"}}, "config.Cmd: must be a list of strings"),
    "a user's id that is none": (
        {"config": {"User": "99999999999999999999"}},
        "config.User: 99999999999999999999 is not a user's id: these are below 4294967295",
    ),
    "a group's id that is none": ({"config": {"User": "0:4294967295"}}, "config.User: 4294967295 is not a group's id"),
    "an endless id": ({"config": {"User": "9" * 5000}}, f"config.User: {'9' * 40} is not a user's id"),
    "a signal that is none": ({"config": {"StopSignal": "SIGNAL"}}, 'config.StopSignal: there is no signal "SIGNAL"'),
    "no name": ({"name": ""}, "has no name: give it one with --name"),
    "a wrong name": ({"name": "A:b"}, "repository name must be lowercase"),
    "a layer by zstd": ({"layers": (b"\x28\xb5\x2f\xfd" + bytes(20),), "compress": False}, "is compressed by zstd"),
    "a layer that is not a tar": ({"layers": (b"text",)}, "is damaged"),
}


@pytest.mark.parametrize(("fields", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_an_invalid_image_is_refused(fields: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    assert sentence in refusal(tmp_path, Layout(**{"layers": (HELLO,), **fields}))


def spoilt_index(**fields: Any) -> dict[str, bytes]:
    files = Layout((HELLO,)).files()
    index = json.loads(files["index.json"])
    index["manifests"][0] |= fields
    return {**files, "index.json": json.dumps(index).encode()}


def spoilt_manifest(**fields: Any) -> dict[str, bytes]:
    files = Layout((HELLO,)).docker_files()
    manifest = json.loads(files["manifest.json"])[0] | fields
    return {**files, "manifest.json": json.dumps([manifest]).encode()}


MISTYPED = {
    "annotations as a list": (spoilt_index(annotations=["x"]), "index.json: annotations: must be an object"),
    "a platform as a string": (spoilt_index(platform="linux"), "an entry of an index: platform: must be an object"),
    "layers as a number": (spoilt_manifest(Layers=5), "manifest.json: Layers: must be a list of strings"),
    "layers as a string": (spoilt_manifest(Layers="x"), "manifest.json: Layers: must be a list of strings"),
    "tags as a number": (spoilt_manifest(RepoTags=5), "manifest.json: RepoTags: must be a list of strings"),
    "a configuration without a name": (spoilt_manifest(Config=5), "manifest.json: Config: must be the name of a file"),
    "a configuration whose name has a NUL": (
        spoilt_manifest(Config="a\0"),
        "has no a\0, which its manifest.json names",
    ),
    "a config as a string": (
        {
            "manifest.json": b'[{"Config": "c.json", "Layers": []}]',
            "c.json": b'{"config": "sh", "rootfs": {"diff_ids": []}}',
        },
        "config: must be an object",
    ),
    "a deep manifest": ({"manifest.json": b"[" * 200_000}, "manifest.json: is not JSON: "),
    "a deep index": ({"index.json": b"[" * 200_000}, "index.json: is not JSON: "),
}


@pytest.mark.parametrize(("files", "sentence"), MISTYPED.values(), ids=MISTYPED.keys())
def test_an_invalid_image_file_is_refused(files: dict[str, bytes], sentence: str, tmp_path: Path) -> None:
    for file in (write_tar(tmp_path / "image.tar", files), write_directory(tmp_path / "layout", files)):
        with pytest.raises(CannotLoad) as caught:
            list(load(tmp_path / "state", file))
        assert sentence in str(caught.value)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_a_damaged_archive_is_reported_as_damaged(mode: str, tmp_path: Path) -> None:
    whole = write_tar(
        tmp_path / "image", Layout((layer(entry("x", hashlib.shake_256().digest(20_000))),)).files(), mode
    ).read_bytes()
    for at in range(0, len(whole) * 3 // 4, len(whole) // 40):  # What is behind the last file is not looked at.
        spoilt = whole[:at] + bytes(each ^ 0xFF for each in whole[at : at + 64]) + whole[at + 64 :]
        for content in (spoilt, whole[:at]):
            (tmp_path / "image").write_bytes(content)
            with pytest.raises(CannotLoad) as caught:
                list(load(tmp_path / "state", tmp_path / "image"))
            assert caught.value.exit_code == 2


def test_terminal_control_characters_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_tar(tmp_path / "image.tar", Layout((layer(entry("../\x1b[2J\n", b"")),)).files())
    assert main(["--state-dir", str(tmp_path / "state"), str(file)]) == 2
    assert capsys.readouterr().err == f"{file}: ../\\x1b[2J\\n: leads out of the image\n"


def test_an_oversized_tar_header_is_not_read(tmp_path: Path) -> None:
    bomb = entry("x", b"", pax_headers={"comment": "x" * (2 << 20)})
    assert "is damaged: a header of" in refusal(tmp_path, Layout((layer(bomb),)))


def longer_and_longer(name: bytes) -> bytes:
    """A tar whose first file has a long name that has a long name, and so on."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, len(name)
    return (header.tobuf(tarfile.GNU_FORMAT) + name.ljust(512, b"\0")) * 2000


HEADERS = {
    "a map of holes that is none": layer(entry("x", b"abc", pax_headers={"GNU.sparse.map": "0,x"})),
    "a map of holes that is not text": layer(
        entry("x", b"\xff" * 512, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})
    ),
    "a header that extends itself for ever": longer_and_longer(b"x"),
}


@pytest.mark.parametrize("tar", HEADERS.values(), ids=HEADERS.keys())
def test_an_invalid_tar_is_refused(tar: bytes, tmp_path: Path) -> None:
    assert "is damaged: an invalid header" in refusal(tmp_path, Layout((tar,)))
    (tmp_path / "image.tar").write_bytes(tar)
    with pytest.raises(CannotLoad, match=r"is a damaged archive|is neither an OCI layout"):
        list(load(tmp_path / "state", tmp_path / "image.tar"))


def test_a_layer_that_changed_in_the_archive_meanwhile_is_reported_as_damaged() -> None:
    class Changed:
        def open(self, name: str) -> IO[bytes]:
            raise lzma.LZMAError("Corrupt input data")

    blob = Descriptor("blobs/a")
    with pytest.raises(ArchiveInvalid, match="blobs/a: is damaged: Corrupt"), layer_tar(Changed(), blob, ""):
        pass


def test_an_archive_without_an_image_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("text")
    (tmp_path / "empty").mkdir()
    for name, why in (
        ("text", "is neither an OCI layout nor a tar archive of one"),
        ("empty", "is not an OCI layout, having no index.json, and not of `docker save` either"),
        ("missing", "No such file or directory"),
    ):
        assert main(["--state-dir", str(tmp_path / "state"), str(tmp_path / name)]) in (1, 2)
        assert capsys.readouterr().err == f"{tmp_path / name}: {why}\n"


def test_links_out_of_an_image_layout_are_refused(tmp_path: Path) -> None:
    layout = write_directory(tmp_path / "layout", Layout((HELLO,)).files())
    (layout / "index.json").rename(tmp_path / "index.json")
    (layout / "index.json").symlink_to(tmp_path / "index.json")
    with pytest.raises(CannotLoad, match="is not an OCI layout"):
        list(load(tmp_path / "state", layout))


@pytest.mark.parametrize(
    ("text", "number"),
    [("SIGTERM", 15), ("term", 15), ("9", 9), ("SIGRTMIN+3", 37), ("37", 37), ("RTMAX-1", 63), ("", 15)],
)
def test_all_spellings_of_a_stop_signal_are_accepted(text: str, number: int) -> None:
    assert number_of(stop_signal(ImageConfig(stop_signal=text))) == number


def test_a_stop_signal_unknown_to_this_machine_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="there is no signal 99"):
        stop_signal(ImageConfig(stop_signal="99"))


@pytest.mark.parametrize(("user", "error"), [("99999999999999999999", ConfigInvalid), (5, TypeError)])
def test_an_image_record_with_an_invalid_user_is_refused(user: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_config({"environment": [], "entrypoint": [], "command": [], "user": user})
