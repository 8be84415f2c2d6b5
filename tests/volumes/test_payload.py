"""Files of volumes from ConfigMaps, Secrets and the pod itself, and their errors."""

from typing import Any

import pytest

from syncpod.objects import ObjectRef
from syncpod.pod import Pod, Volume
from syncpod.pod.volumes import DownwardAPIVolumeFile
from syncpod.volumes.payload import Objects, PayloadError, PayloadFile, default_mode, payload, sources

POD = Pod.model_validate({"metadata": {"name": "web", "namespace": "shop"}})
SETTINGS = ObjectRef("ConfigMap", "shop", "settings")
PASSWORDS = ObjectRef("Secret", "shop", "passwords")
OBJECTS: Objects = {
    SETTINGS: {"colour": b"red", "logo": b"\x00\xff"},
    PASSWORDS: {"root": b"secret-text"},
}


def text_of(file: DownwardAPIVolumeFile, path: str) -> str:
    return f"{file.field_ref.field_path if file.field_ref else ''} at {path}"


def shown(source: dict[str, Any], objects: Objects = OBJECTS) -> dict[str, tuple[bytes, str]]:
    """The files of a volume: bytes and mode."""
    volume = Volume.model_validate({"name": "v", **source}, extra="forbid")
    made = sources(volume, "spec.volumes[0]", POD, text_of)
    assert made is not None
    files = payload(made, objects, default_mode(volume))
    return {path: (file.data, oct(file.mode)) for path, file in files.items()}


def test_a_config_map_volume_has_all_keys() -> None:
    assert shown({"configMap": {"name": "settings"}}) == {"colour": (b"red", "0o644"), "logo": (b"\x00\xff", "0o644")}


def test_a_secret_volume_has_the_selected_keys_with_their_paths_and_modes() -> None:
    items = [{"key": "root", "path": "db//./root"}, {"key": "root", "path": "again", "mode": 0o400}]
    made = shown({"secret": {"secretName": "passwords", "items": items, "defaultMode": 0o440}})
    assert made == {"db/root": (b"secret-text", "0o440"), "again": (b"secret-text", "0o400")}


def test_a_file_mode_of_zero_is_kept() -> None:
    assert shown({"secret": {"secretName": "passwords", "defaultMode": 0}}) == {"root": (b"secret-text", "0o0")}


def test_a_downward_api_volume_has_the_fields_of_the_pod() -> None:
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}, "mode": 0o600}
    made = shown({"downwardAPI": {"items": [labels], "defaultMode": 0o444}})
    assert made == {"labels": (b"metadata.labels at spec.volumes[0].downwardAPI.items[0]", "0o600")}


def test_later_sources_of_a_projected_volume_override_earlier_ones() -> None:
    parts = [
        {"configMap": {"name": "settings", "items": [{"key": "colour", "path": "x"}, {"key": "logo", "path": "y"}]}},
        {"secret": {"name": "passwords", "items": [{"key": "root", "path": "x", "mode": 0o400}]}},
        {"downwardAPI": {"items": [{"path": "me", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    assert shown({"projected": {"sources": parts, "defaultMode": 0o600}}) == {
        "x": (b"secret-text", "0o400"),
        "y": (b"\x00\xff", "0o600"),
        "me": (b"metadata.name at spec.volumes[0].projected.sources[2].downwardAPI.items[0]", "0o600"),
    }


OPTIONAL: dict[str, dict[str, Any]] = {
    "a ConfigMap": {"configMap": {"name": "none", "optional": True}},
    "a Secret": {"secret": {"secretName": "none", "optional": True}},
    "a key": {"configMap": {"name": "settings", "optional": True, "items": [{"key": "none", "path": "x"}]}},
    "parts": {"projected": {"sources": [{"secret": {"name": "none", "optional": True}}]}},
}


@pytest.mark.parametrize("source", OPTIONAL.values(), ids=OPTIONAL)
def test_a_missing_optional_source_gives_no_files(source: dict[str, Any]) -> None:
    assert shown(source) == {}


PROJECTED = [
    {"configMap": {"name": "none"}},
    {"configMap": {"name": "none", "items": [{"key": "k", "path": "k"}]}},
    {"secret": {"name": "passwords", "items": [{"key": "k", "path": "k"}]}},
]
FAILURES: dict[str, tuple[dict[str, Any], str, tuple[ObjectRef, ...]]] = {
    "a ConfigMap that is not there": (
        {"configMap": {"name": "none"}},
        'configmap "none" not found',
        (ObjectRef("ConfigMap", "shop", "none"),),
    ),
    "a Secret that is not there": (
        {"secret": {"secretName": "none"}},
        'secret "none" not found',
        (ObjectRef("Secret", "shop", "none"),),
    ),
    "a key of a ConfigMap": (
        {"configMap": {"name": "settings", "items": [{"key": "k", "path": "k"}]}},
        "configmap references non-existent config key: k",
        (SETTINGS,),
    ),
    "a key of a Secret": (
        {"secret": {"secretName": "passwords", "items": [{"key": "k", "path": "k"}]}},
        "references non-existent secret key: k",
        (PASSWORDS,),
    ),
    "all that is wrong with a projection, each once": (
        {"projected": {"sources": PROJECTED}},
        '[configmap "none" not found, references non-existent secret key: k]',
        (ObjectRef("ConfigMap", "shop", "none"), PASSWORDS),
    ),
    "a path that leads out": (
        {"configMap": {"name": "settings", "items": [{"key": "logo", "path": "a/../../b"}]}},
        "invalid path: must not contain '..': a/../../b",
        (),
    ),
    "a path from the root": (
        {"configMap": {"name": "settings", "items": [{"key": "logo", "path": "/b"}]}},
        "invalid path: must be relative path: /b",
        (),
    ),
    "a path in the place of our own": (
        {"configMap": {"name": "settings", "items": [{"key": "logo", "path": "..data/x"}]}},
        "invalid path: must not start with '..': ..data/x",
        (),
    ),
    "a file in the place of a directory": (
        {
            "configMap": {
                "name": "settings",
                "items": [{"key": "logo", "path": "a/b/c"}, {"key": "colour", "path": "a"}],
            }
        },
        "conflicting paths: a is to be a file, and a directory for a/b/c",
        (),
    ),
    "what only an API server can give": (
        {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        "spec.volumes[0].projected.sources[0].serviceAccountToken: no API server issues one here",
        (),
    ),
}


@pytest.mark.parametrize(("source", "message", "wants"), FAILURES.values(), ids=FAILURES)
def test_a_volume_with_a_missing_source_fails_with_the_kubelets_message(
    source: dict[str, Any], message: str, wants: tuple[ObjectRef, ...]
) -> None:
    with pytest.raises(PayloadError) as caught:
        shown(source)
    assert (str(caught.value), caught.value.wants) == (message, wants)


def test_objects_of_other_namespaces_are_not_used() -> None:
    with pytest.raises(PayloadError, match='configmap "settings" not found'):
        shown({"configMap": {"name": "settings"}}, {ObjectRef("ConfigMap", "default", "settings"): {}})


def test_the_repr_of_a_file_omits_its_bytes() -> None:
    assert "secret-text" not in repr(PayloadFile(b"secret-text", 0o600))


def test_volume_kinds_without_files_have_no_sources() -> None:
    assert sources(Volume(name="v"), "spec.volumes[0]", POD, text_of) is None


def test_one_object_that_is_named_again_and_again_fills_no_memory() -> None:
    """Manifest and object are small, but their product is not."""
    large = {SETTINGS: {"logo": b"x" * 2**20}}
    items = [{"key": "logo", "path": f"{number}"} for number in range(33)]
    assert len(shown({"configMap": {"name": "settings", "items": items[:32]}}, large)) == 32
    parts = [{"configMap": {"name": "settings", "items": [item]}} for item in items]
    for source in ({"configMap": {"name": "settings", "items": items}}, {"projected": {"sources": parts}}):
        with pytest.raises(PayloadError, match=r"^the files of the volume must have no more than 32 MiB together$"):
            shown(source, large)


def test_the_text_of_a_field_is_not_made_without_end() -> None:
    made: list[str] = []

    def large_text(file: DownwardAPIVolumeFile, path: str) -> str:
        made.append(path)
        return "x" * 2**18

    item = {"fieldRef": {"fieldPath": "metadata.annotations"}}
    parts = [{"downwardAPI": {"items": [{"path": f"{number}", **item}]}} for number in range(1000)]
    volume = Volume.model_validate({"name": "v", "projected": {"sources": parts}}, extra="forbid")
    with pytest.raises(PayloadError, match="no more than 32 MiB"):
        sources(volume, "spec.volumes[0]", POD, large_text)
    assert len(made) == 129
