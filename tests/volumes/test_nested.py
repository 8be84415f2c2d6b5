"""A volume mounted inside a file volume gets a mount point there, never outside the volume."""

import os
from pathlib import Path
from typing import Any

import pytest

from syncpod.pod import Pod
from syncpod.volumes.nested import make_nested_mount_points, nested_mount_points
from syncpod.volumes.payload import PayloadError, PayloadFile
from syncpod.volumes.writer import write
from tests.translation.translation import make_pod

FILES = {"key": PayloadFile(b"one", 0o644), "of/key": PayloadFile(b"two", 0o644)}


def pod_of(*containers: dict[str, str], **more: Any) -> Pod:
    """A pod whose containers mount these volumes, by mount path."""
    of = [
        {
            "name": f"c{index}",
            "image": "busybox:1",
            "volumeMounts": [{"name": name, "mountPath": path} for path, name in mounts.items()],
        }
        for index, mounts in enumerate(containers)
    ]
    return make_pod({"containers": of, **more})


@pytest.mark.parametrize(
    ("mounts", "wanted"),
    [
        ({"/etc/v": "v", "/etc/v/in": "w"}, ("in",)),
        ({"/etc/v": "v", "/etc/v/in/side": "w", "/etc/v/in/side/deeper": "x"}, ("in/side",)),
        ({"/etc/v": "v", "/etc/v/in": "w", "/etc/v/in-other": "x", "/etc/v/in/z": "y"}, ("in", "in-other")),
        ({"/etc/v": "v", "/etc/vv": "w", "/etc": "x"}, ()),
        ({"/etc/v/": "v", "//etc/./v//in/": "w", "/etc/v/a/../b": "x"}, ("b", "in")),
        ({"/etc/v": "v", "/etc/v/../out": "w", "/etc/v/in/../../out": "x"}, ()),
        ({"/etc/v": "v", "/etc/v/in": "v"}, ("in",)),
        ({"/etc/w": "w", "/etc/w/in": "x"}, ()),
    ],
)
def test_each_outermost_mount_inside_a_volume_has_a_mount_point(
    mounts: dict[str, str], wanted: tuple[str, ...]
) -> None:
    assert nested_mount_points(pod_of(mounts), "v") == wanted


def test_mount_points_of_init_and_ephemeral_containers_are_listed_once_each() -> None:
    def one(name: str, path: str) -> dict[str, Any]:
        mounts = [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": path}]
        return {"name": name, "image": "busybox:1", "volumeMounts": mounts}

    pod = make_pod(
        {
            "initContainers": [one("i", "/v/init")],
            "containers": [one("c", "/v/main"), one("d", "/v/main")],
            "ephemeralContainers": [one("e", "/v/late")],
        }
    )
    assert nested_mount_points(pod, "v") == ("init", "main", "late")


@pytest.mark.parametrize(
    ("mounts", "place"),
    [
        ({"../../v": "v"}, "../../v"),
        ({"/v": "v", "/v/..data": "w"}, "/v/..data"),
        ({"/v": "v", "/v/..2026_11_21_15_04_05.123456789/x": "w"}, "/v/..2026_11_21_15_04_05.123456789/x"),
        ({"/v": "v", "/v/a\0b": "w"}, "/v/a"),
    ],
)
def test_a_path_out_of_the_volume_or_into_its_own_files_is_refused(mounts: dict[str, str], place: str) -> None:
    with pytest.raises(PayloadError, match="invalid container mount point") as refused:
        nested_mount_points(pod_of(mounts), "v")
    assert place in str(refused.value)


def test_mount_points_are_made_before_the_files_and_stay_beside_them(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        for _ in range(2):
            make_nested_mount_points(tmp_path, ("in/side", "of"))
            write(tmp_path, FILES)
    finally:
        os.umask(umask)
    assert (tmp_path / "key").read_bytes() == b"one"
    assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "in", tmp_path / "in/side")] == ["0o755"] * 2
    assert list((tmp_path / "of").iterdir()) == [], "the mount hides the files of that name"
    write(tmp_path, {"key": PayloadFile(b"new", 0o644)})
    assert (tmp_path / "in/side").is_dir()


def test_an_existing_symlink_is_followed_only_within_the_volume(tmp_path: Path) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    volume.mkdir()
    outside.mkdir()
    write(volume, FILES)
    make_nested_mount_points(volume, ("of/late",))
    assert (volume / "..data" / "of" / "late").is_dir()
    assert (volume / "of" / "key").read_bytes() == b"two"
    for name, target in (("away", outside), ("up", "../outside"), ("key", None)):
        if target is not None:
            (volume / name).symlink_to(target)
        with pytest.raises(OSError, match="unable to create nested volume mountpoints"):
            make_nested_mount_points(volume, (f"{name}/x",))
    assert list(outside.iterdir()) == []
