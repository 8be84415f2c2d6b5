"""Image names: valid ones, and the default tag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.images.reference import InvalidImage, repository_of, with_default_tag

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "completed"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1.36", "busybox:1.36"),
        ("library/busybox", "library/busybox:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("registry.example.com:5000/team/app:v1", "registry.example.com:5000/team/app:v1"),
        ("Registry.example.com/app", "Registry.example.com/app:latest"),
        ("UPPER/app", "UPPER/app:latest"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        (f"app@{DIGEST}", f"app@{DIGEST}"),
        (f"app:v1@{DIGEST}", f"app:v1@{DIGEST}"),
        ("a__b/c--d.e_f", "a__b/c--d.e_f:latest"),
        ("app:V_1.0-rc", "app:V_1.0-rc"),
    ],
)
def test_a_tag_is_added_only_to_a_name_without_tag_and_digest(image: str, completed: str) -> None:
    assert with_default_tag(image) == completed


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("", "invalid reference format"),
        (" busybox", "invalid reference format"),
        ("busybox\n", "invalid reference format"),
        ("busy box", "invalid reference format"),
        (":v1", "invalid reference format"),
        ("app:", "invalid reference format"),
        ("app:" + "v" * 129, "invalid reference format"),
        ("app@sha256:abc", "invalid reference format"),
        ("app@sha256:" + "a" * 40, "invalid checksum digest length"),
        ("app@sha256:" + "A" * 64, "invalid checksum digest format"),
        ("app@md5:" + "a" * 32, "unsupported digest algorithm"),
        (f"App@{DIGEST}", "invalid reference format: repository name (library/App@sha256) must be lowercase"),
        ("https://example.com/app", "invalid reference format"),
        ("example.com//app", "invalid reference format"),
        ("a___b", "invalid reference format"),
        ("-app", "invalid reference format"),
        ("app/", "invalid reference format"),
        ("Web", "invalid reference format: repository name (library/Web) must be lowercase"),
        ("example.com/Web:1", "invalid reference format: repository name (Web) must be lowercase"),
        ("a" * 64, f"invalid repository name ({'a' * 64}), cannot specify 64-byte hexadecimal strings"),
        ("example.com/" + "a/" * 130 + "b", "repository name must not be more than 255 characters"),
    ],
)
def test_an_invalid_image_name_is_refused_with_the_message_of_gos_reference_package(image: str, why: str) -> None:
    with pytest.raises(InvalidImage) as caught:
        with_default_tag(image)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("busybox", "docker.io/library/busybox"),
        ("team/app:v1", "docker.io/team/app"),
        (f"quay.io/team/app:v1@{DIGEST}", "quay.io/team/app"),
        ("localhost:5000/app", "localhost:5000/app"),
    ],
)
def test_a_repository_is_the_full_name_without_tag_and_digest(image: str, repository: str) -> None:
    assert repository_of(image) == repository


@given(st.text(max_size=40))
def test_normalising_an_image_name_is_idempotent(image: str) -> None:
    try:
        completed = with_default_tag(image)
    except InvalidImage:
        return
    assert completed.startswith(image)
    assert with_default_tag(completed) == completed
