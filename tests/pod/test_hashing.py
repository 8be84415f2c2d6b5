"""The hash is the kubelet's, and the JSON of equal pods is equal."""

import pytest

from syncpod.pod import canonical_json, container_hash, parse_pod
from tests.pod.examples import pod


@pytest.mark.parametrize(
    ("name", "image", "expected"),
    [("test_container", "foo/image:v1", "8e45cbd0"), ("foo", "bar", "11a6d6d6")],
)
def test_the_hash_of_name_and_image_is_the_kubelets(name: str, image: str, expected: str) -> None:
    assert container_hash(name, image) == expected


def test_the_hash_depends_on_name_and_image_and_is_plain_hex() -> None:
    hashes = {container_hash(name, image) for name in ("a", "b") for image in ("a", "b")}
    assert len(hashes) == 4
    assert all(set(text) <= set("0123456789abcdef") for text in hashes)


def test_characters_that_go_escapes_in_json_are_escaped() -> None:
    assert container_hash("a", "<image>&") == "b7dc34f0"
    assert container_hash("ü", "naïve\u2028") == "d18e79a5"


def test_canonical_json_does_not_depend_on_field_order() -> None:
    one = parse_pod(pod(metadata__labels={"a": "1", "b": "2"}))
    other = parse_pod(pod(metadata__labels={"b": "2", "a": "1"}))
    assert canonical_json(one) == canonical_json(other)
    assert canonical_json(one) != canonical_json(parse_pod(pod(metadata__labels={"a": "1", "b": "3"})))
