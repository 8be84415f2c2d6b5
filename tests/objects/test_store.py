"""Objects on disk: one private file each, replaced atomically despite other writers and crashes.

Holds: A reader of an object or a volume sees either the old set or the new one.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.objects import ABSENT, ObjectRef, ObjectRefused, ObjectStore, ObjectUnknown, ObjectUnreadable, values
from syncpod.pod import ConfigMap, Secret
from tests.objects.objects import config_map, ref, secret, store_in


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return store_in(tmp_path)


def test_config_maps_are_kept_on_disk_and_secrets_in_memory_with_private_modes(
    store: ObjectStore, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        store.put(config_map(data={"k": "v"}))
        store.put(secret("b", "prod", stringData={"k": "v"}))
    finally:
        os.umask(before)
    assert (tmp_path / "state/objects/configmaps/default/a.json").is_file()
    assert (tmp_path / "memory/objects/secrets/prod/b.json").is_file()
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_stored_object_has_a_uid_and_a_creation_time(store: ObjectStore) -> None:
    store.put(config_map(data={"k": "v"}))
    found = store.get(ref())
    assert isinstance(found, ConfigMap) and found.data == {"k": "v"}
    meta = found.metadata
    assert (meta.namespace, meta.resource_version, len(meta.uid)) == ("default", "1", 36)
    assert meta.creation_timestamp is not None


def test_put_returns_whether_the_object_was_created_configured_or_unchanged(store: ObjectStore) -> None:
    assert store.put(config_map(data={"k": "v"})) == "created"
    assert store.put(config_map(data={"k": "v"})) == "unchanged"
    assert store.put(config_map(data={"k": "w"})) == "configured"
    assert store.delete(ref())
    assert store.put(config_map(data={"k": "w"})) == "created"


def test_a_missing_object_is_none_and_deleting_it_does_nothing(store: ObjectStore, tmp_path: Path) -> None:
    assert store.get(ref()) is None
    assert store.list("Secret") == ()
    assert store.versions() == {}
    assert not store.delete(ref())
    assert list(tmp_path.iterdir()) == [], "that makes nothing"


def test_objects_are_listed_by_namespace_and_name(store: ObjectStore) -> None:
    for namespace, name in (("b", "x"), ("a", "y"), ("a", "x")):
        store.put(secret(name, namespace))
    store.put(config_map("z", "a"))
    found = [(one.metadata.namespace, one.metadata.name) for one in store.list("Secret")]
    assert found == [("a", "x"), ("a", "y"), ("b", "x")]
    assert [one.metadata.name for one in store.list("Secret", "b")] == ["x"]
    assert all(isinstance(one, Secret) for one in store.list("Secret"))


def test_the_version_changes_exactly_when_the_object_changes(store: ObjectStore) -> None:
    store.put(config_map(data={"k": "v"}))
    store.put(secret(stringData={"k": "v"}))
    before = store.versions()
    assert set(before) == {ref(), ref("Secret")}
    store.put(config_map(data={"k": "v"}))
    assert store.versions() == before
    store.put(config_map(data={"k": "w"}))
    after = store.versions()
    assert after[ref()] != before[ref()] and after[ref("Secret")] == before[ref("Secret")]
    store.delete(ref())
    assert set(store.versions()) == {ref("Secret")}


@pytest.mark.parametrize("length", [250, 251, 253])
def test_an_object_name_may_have_the_maximum_length_of_kubernetes(store: ObjectStore, length: int) -> None:
    # The longest name, and one that ends as a file of a shorter one would.
    for name in ("n" * length, "n" * (length - 5) + ".json"):
        store.put(config_map(name, data={"k": name}))
        assert store.versions().keys() >= {ref(name=name)}
        assert [one.metadata.name for one in store.list("ConfigMap")] == [name]
        assert store.delete(ref(name=name))


@pytest.mark.parametrize(("namespace", "name"), [("default", "../../x"), ("..", "a"), ("", "a"), ("default", "a/b")])
def test_names_that_lead_out_of_the_store_are_refused(
    store: ObjectStore, tmp_path: Path, namespace: str, name: str
) -> None:
    (tmp_path / "x.json").write_text("{}")
    there = ObjectRef("ConfigMap", namespace, name)
    assert store.get(there) is None
    assert not store.delete(there)
    if namespace:
        with pytest.raises(ValueError, match=r"metadata\.name"):
            store.put(config_map(name, namespace))
    assert (tmp_path / "x.json").read_text() == "{}"


def test_files_that_are_not_objects_are_skipped(store: ObjectStore, tmp_path: Path) -> None:
    store.put(config_map())
    place = tmp_path / "state/objects/configmaps"
    (place / "default/README").touch()
    (place / "default/B.json").touch()
    (place / "default/c.json").symlink_to("a.json")
    (place / "file").touch()
    assert list(store.versions()) == [ref()]
    assert len(store.list("ConfigMap")) == 1


def test_a_corrupt_object_file_is_named_without_showing_its_content(store: ObjectStore, tmp_path: Path) -> None:
    store.put(secret())
    file = tmp_path / "memory/objects/secrets/default/a.json"
    file.write_text('{"data": {"k": ["hunter2"]}}')
    with pytest.raises(ObjectUnreadable) as wrong:
        store.get(ref("Secret"))
    assert str(file) in str(wrong.value) and "hunter2" not in str(wrong.value)
    assert wrong.value.__cause__ is None and wrong.value.__suppress_context__
    assert store.delete(ref("Secret"))
    assert store.put(secret()) == "created"


def test_a_refused_change_leaves_the_stored_object_unchanged(store: ObjectStore) -> None:
    store.put(config_map(data={"k": "v"}, immutable=True))
    before = store.versions()
    with pytest.raises(ObjectRefused):
        store.put(config_map(data={"k": "w"}, immutable=True))
    assert store.versions() == before


@pytest.mark.parametrize(("what", "ends"), [("put", {"old", "new"}), ("delete", {"old", None})])
def test_a_killed_writer_leaves_the_old_or_the_new_object(what: str, ends: set[str | None], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.objects.killed", str(tmp_path / "store"), what],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = [value for value, _ in json.loads(done.stdout)]
    assert len(found) > 15, "it was killed at every line"
    assert set(found) == ends
    change = [value != "old" for value in found]
    assert change == sorted(change), "once it is the new, a later death does not bring back the old"
    assert {again for _, again in json.loads(done.stdout)} <= {"created", "configured"}
    left = {path.name for path in (tmp_path / "store/memory/objects").iterdir()}
    assert left == {"secrets", "former", "since", ".lock"}


def test_concurrent_writes_by_two_processes_are_all_kept(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.objects.objects import config_map, store_in\n"
        "store, mine = store_in(Path(sys.argv[1])), sys.argv[2]\n"
        "for number in range(60):\n"
        "    store.put(config_map('shared', data={'by': mine, 'number': str(number)}))\n"
        "    store.put(config_map(mine, data={'number': str(number)}))\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name], cwd=Path(__file__).parents[2])
        for name in ("one", "two")
    ]
    store = store_in(tmp_path)
    torn = 0
    while any(writer.poll() is None for writer in writers):
        found = store.get(ref(name="shared"))
        torn += found is not None and set(values(found)) != {"by", "number"}
        store.versions()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert torn == 0
    last = store.get(ref(name="shared"))
    assert last is not None
    assert last.metadata.resource_version == "120", "no change was made on top of what another had replaced"
    assert all(values(held)["number"] == b"59" for held in store.list("ConfigMap"))


def test_a_writer_waits_for_another(store: ObjectStore, tmp_path: Path) -> None:
    store.put(config_map(data={"k": "1"}))
    with store._locked("ConfigMap"):
        other = threading.Thread(target=store_in(tmp_path).put, args=(config_map(data={"k": "2"}),))
        other.start()
        store_in(tmp_path).put(secret())  # another kind is not kept waiting
        held = store.get(ref())
        assert held is not None and values(held) == {"k": b"1"}
    other.join()
    held = store.get(ref())
    assert held is not None and values(held) == {"k": b"2"}


@given(
    texts=st.dictionaries(st.from_regex(r"[-._a-zA-Z0-9]{1,20}", fullmatch=True), st.text(), max_size=4),
    blobs=st.dictionaries(st.from_regex(r"[-._a-zA-Z0-9]{1,20}", fullmatch=True), st.binary(), max_size=4),
)
def test_any_object_that_is_put_is_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str], blobs: dict[str, bytes]
) -> None:
    store = store_in(tmp_path_factory.mktemp("store"))
    encoded = {key: base64.b64encode(blob).decode() for key, blob in blobs.items()}
    wanted = {**blobs, **{key: text.encode() for key, text in texts.items()}}
    store.put(config_map(data=texts, binaryData={key: blob for key, blob in encoded.items() if key not in texts}))
    store.put(secret(stringData=texts, data=encoded))
    for kind in ("ConfigMap", "Secret"):
        held = store.get(ref(kind))
        assert held is not None and values(held) == wanted


# --- objects of a Kubernetes cluster ----------------------------------------------------------------------------------


def clusters(kind: str = "ConfigMap") -> ObjectRef:
    return ObjectRef("Secret" if kind == "Secret" else "ConfigMap", "default", "a", origin="cluster")


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_the_clusters_objects_and_those_of_the_node_stand_apart(store: ObjectStore, kind: str) -> None:
    make = config_map if kind == "ConfigMap" else secret
    text = "djE=" if kind == "Secret" else "v1"
    store.put(make(data={"k": text}))
    with pytest.raises(ObjectUnknown, match=f"failed to sync {kind.lower()} cache: timed out"):
        store.get(clusters(kind))
    store.note_absent(clusters(kind))
    assert store.get(clusters(kind)) is None
    assert store.version(clusters(kind)) == ABSENT
    theirs = make(namespace="default", data={"k": "djI=" if kind == "Secret" else "v2"})
    assert store.keep(theirs) and not store.keep(theirs)
    held, own = store.get(clusters(kind)), store.get(ref(kind))
    assert held == theirs and own is not None and values(own) == {"k": b"v1"}
    assert set(store.versions()) == {clusters(kind), ref(kind)}
    assert [values(each) for each in store.list(theirs.kind)] == [{"k": b"v1"}], "a person sees the node's own"
    store.forget(clusters(kind))
    assert set(store.versions()) == {ref(kind)}
    assert store.version(clusters(kind)) is None
    assert [each.ref for each, _ in store.former()] == ([clusters(kind)] if kind == "Secret" else [])


def test_what_a_secret_of_the_cluster_was_is_kept_and_its_absence_is_nothing_to_keep(store: ObjectStore) -> None:
    store.note_absent(clusters("Secret"))
    for value in ("first", "second"):
        store.keep(secret(namespace="default", data={"k": base64.b64encode(value.encode()).decode()}))
    store.note_absent(clusters("Secret"))
    store.forget(clusters("Secret"))
    assert sorted(values(held)["k"] for _, held in store.former()) == [b"first", b"second"]
    assert {former.ref for former, _ in store.former()} == {clusters("Secret")}


def test_a_file_of_the_cluster_that_is_damaged_is_replaced(store: ObjectStore, tmp_path: Path) -> None:
    store.keep(config_map(namespace="default", data={"k": "v"}))
    [file] = (tmp_path / "state/objects/cluster-configmaps").rglob("*.json")
    file.write_text("{")
    with pytest.raises(ObjectUnreadable):
        store.get(clusters())
    assert store.keep(config_map(namespace="default", data={"k": "v"}))
    assert store.get(clusters()) is not None
