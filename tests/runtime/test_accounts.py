"""Users and groups of an image are read from the image's own files, even through links, never from the machine's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protos.cri.v1 import api_pb2 as cri
from syncpod.runtime.images.config import ImageConfig, OwnImage
from syncpod.runtime.port import User
from syncpod.runtime.processes.accounts import Account, ImageAccounts, image_user
from syncpod.runtime.processes.process_spec import environment, user
from syncpod.runtime.refusals import Refusal
from tests.runtime.test_server_refusals import ORDINARY, ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "etc").mkdir(parents=True)
    (made / "usr").mkdir()
    # An absolute link counts from the image's root, not from the machine's.
    (made / "etc/passwd").symlink_to("/usr/passwd")
    (made / "usr/passwd").write_text("root:x:0:0::/root:/bin/sh\n# no one\nbroken\napp:x:7:8::/home/app:/bin/sh\n")
    (made / "etc/group").write_text("root:x:0:\napp:x:8:\nextra:x:9:app,root\nmore:x:10:app\n")
    return made


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("app", (7, 8)),
        ("7", (7, 8)),
        ("app:extra", (7, 9)),
        ("7:77", (7, 77)),
        ("12345", (12345, 0)),
    ],
)
def test_an_image_names_its_user_in_many_ways(root: Path, text: str, found: tuple[int, int]) -> None:
    account, gid = image_user(text, ImageAccounts(root))
    assert (account.uid, gid) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [("daemon", 'no user "daemon" in the image'), ("app:daemon", 'no group "daemon" in the image')],
)
def test_users_of_the_machine_are_unknown_to_an_image(root: Path, text: str, problem: str) -> None:
    with pytest.raises(LookupError) as caught:
        image_user(text, ImageAccounts(root))
    assert caught.value.args == (problem,)


def test_an_image_without_a_passwd_file_has_no_users(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").symlink_to("../../../../etc/passwd")  # Leads nowhere: the image has no such file itself.
    assert ImageAccounts(tmp_path).named("root") is None
    assert ImageAccounts(tmp_path).numbered(0) == Account("", 0, 0)


def test_a_passwd_file_that_is_a_fifo_or_device_is_ignored_without_blocking(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/passwd")
    (tmp_path / "etc/group").mkdir()
    found = ImageAccounts(tmp_path)
    assert (found.named("root"), found.group_named("root")) == (None, None)


@pytest.mark.parametrize("number", ["4294967295", "9" * 5000])
def test_an_invalid_user_number_is_refused(number: str, root: Path) -> None:
    (root / "usr/passwd").write_text(
        f"odd:x:{number}:0::/:/bin/sh\nodd:x:1:{number}::/:/bin/sh\napp:x:7:8::/:/bin/sh\n"
    )
    (root / "etc/group").write_text(f"odd:x:{number}:\n")
    found = ImageAccounts(root)
    assert (found.named("odd"), found.group_named("odd")) == (None, None)
    assert found.named("app") == Account("app", 7, 8)
    with pytest.raises(LookupError, match="no user"):
        image_user(number, found)
    with pytest.raises(LookupError, match="no group"):
        image_user(f"app:{number}", found)


def runs_as(root: Path, text: str, **asked: int) -> User | None:
    security = cri.LinuxContainerSecurityContext()
    for field, value in asked.items():
        getattr(security, field).value = value
    return user(security, ROOT, "c", OwnImage(root, ImageConfig(user=text)))


def test_a_container_runs_as_its_images_user_and_groups(root: Path) -> None:
    assert runs_as(root, "app") == User(7, 8, (8, 9, 10))
    assert runs_as(root, "") == User(0, 0, (0, 9))
    assert runs_as(root, "app", run_as_user=0) == User(0, 0, (0, 9))
    assert runs_as(root, "", run_as_user=7, run_as_group=5) == User(7, 5, (5, 9, 10))


def test_without_root_only_the_images_root_is_available_as_the_current_user(root: Path) -> None:
    security = cri.LinuxContainerSecurityContext()
    for text in ("", "root", "0:0"):
        assert user(security, ORDINARY, "c", OwnImage(root, ImageConfig(user=text))) is None
    with pytest.raises(Refusal, match=r"config\.image: only root can run as user 7"):
        user(security, ORDINARY, "c", OwnImage(root, ImageConfig(user="app")))


def test_the_pods_environment_overrides_the_images(root: Path) -> None:
    image = OwnImage(root, ImageConfig(environment=(("PATH", "/opt"), ("A", "image"), ("B", "image"))))
    config = cri.ContainerConfig(envs=[cri.KeyValue(key="B", value=b"pod")])
    found = dict(environment(config, ROOT, User(7, 8), "web", image))
    assert found == {"PATH": "/opt", "HOME": "/home/app", "HOSTNAME": "web", "A": "image", "B": "pod"}
