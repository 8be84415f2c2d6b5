"""Names of images, and the record of pulled images."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.runtime.images.inventory import ImageStore, Reference, ReferenceInvalid, parse_reference

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.29", "docker.io/library/busybox:1.29"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/team/app", "docker.io/team/app:latest"),
        ("registry.example/app", "registry.example/app:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:2", "localhost:5000/app:2"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        (f"app@{DIGEST}", f"docker.io/library/app@{DIGEST}"),
        (f"app:1.0@{DIGEST}", f"docker.io/library/app@{DIGEST}"),
        ("Registry/app", "Registry/app:latest"),
        ("a/b__c/d-e.f", "docker.io/a/b__c/d-e.f:latest"),
    ],
)
def test_an_image_name_is_completed(name: str, full: str) -> None:
    assert str(parse_reference(name)) == full


@pytest.mark.parametrize(
    "name",
    [
        "",
        "App",
        "a//b",
        "/app",
        "app/",
        "app:",
        "app:-",
        "app:a b",
        "app@sha256:short",
        "app@" + "b" * 64,
        "a..b",
        "-app",
        "../app",
        "app\n",
        "app\0",
        "http://registry.example/app",
        "c" * 64,
        "d" * 256,
        "app:" + "t" * 129,
        "ünicode",
    ],
)
def test_an_invalid_image_name_is_refused(name: str) -> None:
    with pytest.raises(ReferenceInvalid):
        parse_reference(name)


@given(st.text(max_size=80))
def test_any_text_is_a_name_or_refused_and_completion_is_idempotent(text: str) -> None:
    try:
        full = parse_reference(text)
    except ReferenceInvalid:
        return
    assert parse_reference(str(full)) == full


def test_an_image_exists_from_its_pull_to_its_removal(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    assert store.find("busybox") is None
    image = store.pull(parse_reference("busybox"))
    assert store.pull(parse_reference("docker.io/library/busybox:latest")) == image
    assert ImageStore(tmp_path / "images").find("busybox") == image
    store.remove(image)
    assert store.find("busybox") is None
    assert list(ImageStore(tmp_path / "images")) == []


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b"{}", b'{"repository": 1, "tag": 2, "digest": 3, "pulled_at": 4}'])
def test_an_image_with_a_torn_record_must_be_pulled_again(tmp_path: Path, torn: bytes) -> None:
    store = ImageStore(tmp_path / "images")
    image, other = store.pull(parse_reference("busybox")), store.pull(parse_reference("other"))
    file = tmp_path / "images" / f"{image.id.removeprefix('sha256:')}.json"
    file.write_bytes(torn)
    again = ImageStore(tmp_path / "images")
    assert list(again) == [other]
    assert [problem.startswith(f"{file}: ") for problem in again.unreadable] == [True]
    again.pull(parse_reference("busybox"))
    assert ImageStore(tmp_path / "images").find("busybox") is not None


def test_an_image_is_found_by_each_of_its_names(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    image = store.pull(parse_reference("busybox:1"))
    other = store.pull(parse_reference(f"app@{DIGEST}"))
    hexadecimal = image.id.removeprefix("sha256:")
    for name in (
        "busybox:1",
        "docker.io/library/busybox:1",
        image.id,
        hexadecimal,
        hexadecimal[:12],
        image.repo_digest,
    ):
        assert store.find(name) == image
    assert store.find(f"docker.io/library/app@{DIGEST}") == other
    assert other.repo_tags == () and other.repo_digest == f"docker.io/library/app@{DIGEST}"
    assert store.find("busybox:2") is None
    assert store.find("") is None


def test_a_hexadecimal_reference_is_tried_as_a_name_before_an_id(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    by_name = store.pull(parse_reference("cafe"))
    assert store.find("cafe") == by_name
    assert by_name.reference == Reference("docker.io/library/cafe", tag="latest")
    assert by_name.reference.short_name == "cafe"
