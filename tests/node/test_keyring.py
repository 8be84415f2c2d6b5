"""Registry credentials, read from docker's configuration and matched with images as in the kubelet."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from syncpod.cri.keyring import (
    Credential,
    DockerConfigInvalid,
    Keyring,
    SecretSource,
    credentials_in,
    credentials_in_secret,
)

SOURCE = SecretSource("default", "pull", "uid-1")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def keyring(*registries: str) -> Keyring:
    """A keyring whose user name for each registry is the registry's name."""
    return Keyring((registry, Credential(registry, "secret")) for registry in registries)


def told(ring: Keyring, repository: str) -> list[str]:
    return [credential.username for credential in ring.lookup(repository)]


@pytest.mark.parametrize(
    ("registry", "repository"),
    [
        ("quay.io", "quay.io/coreos/etcd"),
        ("https://quay.io", "quay.io/coreos/etcd"),
        ("http://quay.io/v1/", "quay.io/coreos/etcd"),
        ("https://quay.io/v2/", "quay.io/coreos/etcd"),
        ("https://someone:else@quay.io", "quay.io/coreos/etcd"),
        ("quay.io/coreos", "quay.io/coreos/etcd"),
        ("quay.io/core", "quay.io/coreos/etcd"),
        ("*.quay.io", "eu.quay.io/etcd"),
        ("eu.*.io", "eu.quay.io/etcd"),
        ("*-1.quay.io", "eu-1.quay.io/etcd"),
        ("e*u*-*1.quay.io", "eu-1.quay.io/etcd"),
        ("*.*.quay.io", "a.b.quay.io/etcd"),
        ("*.quay.io:8443/team", "eu.quay.io:8443/team/app"),
        ("localhost:5000", "localhost:5000/app"),
        ("[::1]:5000", "[::1]:5000/app"),
        ("docker.io", "docker.io/library/busybox"),
    ],
)
def test_credentials_match_images_below_their_registry(registry: str, repository: str) -> None:
    assert told(keyring(registry), repository) == [registry]


@pytest.mark.parametrize(
    ("registry", "repository"),
    [
        ("quay.io", "eu.quay.io/etcd"),
        ("*.quay.io", "quay.io/etcd"),
        ("*.quay.io", "a.b.quay.io/etcd"),
        ("*quay.io", "eu.quay.io/etcd"),
        ("k*.io", "quay.io/etcd"),
        ("*y*y*.io", "quay.io/etcd"),
        ("qua*ay.io", "quay.io/etcd"),
        ("quay.io:443", "quay.io/etcd"),
        ("quay.io", "quay.io:443/etcd"),
        ("quay.io/coreos", "quay.io/other"),
        ("quay.io/*", "quay.io/coreos"),
        ("https://index.docker.io/v1/", "quay.io/etcd"),
        ("quay.io:port", "quay.io/etcd"),
        ("qu ay.io", "quay.io/etcd"),
        ("", "quay.io/etcd"),
    ],
)
def test_credentials_do_not_match_other_images(registry: str, repository: str) -> None:
    assert told(keyring(registry), repository) == []


def test_matching_a_hostile_pattern_is_fast() -> None:
    hostile = "*a" * 5_000 + "*b.io"
    assert told(keyring(hostile), f"{'a' * 200_000}.io/app") == []


def test_the_most_specific_registry_is_tried_first() -> None:
    expected = ["quay.io/coreos/etcd", "quay.io/coreos", "quay.io", "*.io"]
    for registries in (expected, expected[::-1]):
        assert told(keyring(*registries), "quay.io/coreos/etcd") == expected


def test_all_credentials_of_one_registry_are_tried_in_order() -> None:
    assert told(keyring("quay.io", "https://quay.io/v1/"), "quay.io/etcd") == ["quay.io", "https://quay.io/v1/"]


@pytest.mark.parametrize("repository", ["docker.io/library/busybox", "busybox", "team/app", "index.docker.io/a/b"])
def test_the_docker_hub_default_is_used_if_no_other_entry_matches(repository: str) -> None:
    assert told(keyring("https://index.docker.io/v1/", "quay.io"), repository) == ["https://index.docker.io/v1/"]


def test_the_docker_hub_default_is_ignored_if_another_entry_matches() -> None:
    ring = keyring("https://index.docker.io/v1/", "docker.io/library")
    assert told(ring, "docker.io/library/busybox") == ["docker.io/library"]


@pytest.mark.parametrize(
    ("entry", "name_and_password"),
    [
        ({"username": "jo", "password": "pw"}, ("jo", "pw")),
        ({"Username": "jo", "PASSWORD": "pw"}, ("jo", "pw")),
        ({"auth": encoded("jo:p:w")}, ("jo", "p:w")),
        ({"auth": encoded("jo:pwd").rstrip("=")}, ("jo", "pwd")),
        ({"auth": encoded("jo:pw") + "\n"}, ("jo", "pw")),
        ({"auth": encoded("jo:pw"), "username": "other", "password": "other"}, ("jo", "pw")),
        ({"identitytoken": "not taken"}, ("", "")),
        (None, ("", "")),
    ],
)
def test_an_entry_gives_a_name_and_a_password(entry: Any, name_and_password: tuple[str, str]) -> None:
    [(registry, credential)] = credentials_in(json.dumps({"auths": {"quay.io": entry}}).encode())
    assert (registry, (credential.username, credential.password)) == ("quay.io", name_and_password)


@pytest.mark.parametrize("text", ["{}", "null", '{"auths": null}', '{"credsStore": "desktop"}'])
def test_a_configuration_may_be_empty(text: str) -> None:
    assert credentials_in(text.encode()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hunter2", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ('["hunter2"]', "it must be an object"),
        ('{"auths": ["hunter2"]}', "auths must be an object"),
        ('{"auths": {"quay.io": "hunter2"}}', "an entry must be an object"),
        ('{"auths": {"quay.io": {"password": ["hunter2"]}}}', "password of an entry must be a string"),
        ('{"auths": {"quay.io": {"auth": "hunter2!"}}}', "auth of an entry must be base64 of name:password"),
        ('{"auths": {"quay.io": {"auth": "aHVudGVyMg=="}}}', "auth of an entry must be base64 of name:password"),
    ],
)
def test_an_invalid_configuration_is_refused_without_showing_it(text: str, why: str) -> None:
    with pytest.raises(DockerConfigInvalid) as caught:
        credentials_in(text.encode())
    assert str(caught.value) == why
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_both_secret_types_are_read_and_recorded_as_the_source() -> None:
    auths = {"quay.io": {"username": "jo", "password": "pw"}}
    modern = {".dockerconfigjson": json.dumps({"auths": auths}).encode()}
    legacy = {".dockercfg": json.dumps(auths).encode()}
    expected = [("quay.io", Credential("jo", "pw", source=SOURCE))]
    assert credentials_in_secret("kubernetes.io/dockerconfigjson", modern, SOURCE) == expected
    assert credentials_in_secret("kubernetes.io/dockercfg", legacy, SOURCE) == expected


@pytest.mark.parametrize(
    ("secret_type", "why"),
    [
        ("Opaque", "its type is Opaque, not kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg"),
        ("kubernetes.io/dockerconfigjson", "it has no .dockerconfigjson"),
    ],
)
def test_a_secret_of_another_type_is_refused(secret_type: str, why: str) -> None:
    with pytest.raises(DockerConfigInvalid) as caught:
        credentials_in_secret(secret_type, {"password": b"hunter2"}, SOURCE)
    assert str(caught.value) == why


def test_the_hash_of_credentials_is_the_kubelets() -> None:
    credential = Credential("rex", "tiny arms", "rex@example.com")
    assert credential.hash == "899748fec74c8dd761845fca727f4249b05be275ff24026676fcd4351f656363"


def test_a_credential_never_shows_its_password() -> None:
    credential = Credential("jo", "hunter2", "jo@example.com", SOURCE)
    assert "hunter2" not in f"{credential!r} {credential}"
    assert credential.secrets == ("hunter2", encoded("jo:hunter2"))
    assert Credential("jo", "").secrets == ()
