"""`run`, `label`, `annotate`, `patch` and `edit` on a scripted node: pods are made and changed without a manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.manifests import fresh_name


def kept_in(directory: Path) -> list[Path]:
    """The files that an edit left; asserts that only their owner can read them."""
    found = list(directory.glob("syncpod-edit-*"))
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in found)
    return found


async def shown(syncpod: Command, name: str) -> dict[str, Any]:
    """The pod as `get -o json` prints it."""
    found: dict[str, Any] = json.loads((await syncpod("get", "pod", name, "-o", "json")).out)
    return found


async def test_run_creates_a_pod_by_name_and_image_once(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    flags = ("--image", "busybox:1", "--env", "A=b=c", "--port", "80", "--restart", "Never")
    tried = await syncpod("run", name, *flags, "--dry-run=client", "-o", "json", "--", "-x", "y")
    planned = json.loads(tried.out)["spec"]
    made = await syncpod("run", name, *flags, *on, "--wait", "--", "-x", "y")
    assert (made.code, made.out) == (0, f"pod/{name} created\npod/{name} ready\n"), made.err
    pod = await shown(syncpod, name)
    assert pod["metadata"]["labels"] == {"run": name}
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["-x", "y"] and container["env"] == [{"name": "A", "value": "b=c"}]
    assert {key: container[key] for key in ("image", "args", "env")} == {
        key: planned["containers"][0][key] for key in ("image", "args", "env")
    }
    again = await syncpod("run", name, *flags, *on)
    assert (again.code, again.out) == (1, "") and "already exists" in again.err


async def test_labels_and_annotations_are_set_and_removed(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("run", name, "--image", "busybox:1", "-l", "app=a", *on, "--wait")
    assert (await syncpod("label", "pod", name, "tier=x")).out == f"pod/{name} labeled\n"
    refused = await syncpod("label", name, "tier=y")
    assert (refused.code, refused.out) == (1, "") and "label tier is 'x' already: --overwrite" in refused.err
    assert (await syncpod("label", f"pod/{name}", "tier=y", "--overwrite")).code == 0
    assert (await syncpod("label", "-l", "tier=y", "app-")).out == f"pod/{name} unlabeled\n"
    assert (await syncpod("label", name, "app-")).out == f"pod/{name} not unlabeled\n"
    assert (await syncpod("annotate", name, "note=two words")).out == f"pod/{name} annotated\n"
    metadata = (await shown(syncpod, name))["metadata"]
    assert (metadata["labels"], metadata["annotations"]["note"]) == ({"tier": "y"}, "two words")
    wrong = await syncpod("label", name, "a b=c")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1) and "metadata.labels[a b]" in wrong.err


async def test_a_patch_changes_what_may_change(syncpod: Command, on: tuple[str, str]) -> None:
    name = fresh_name()
    await syncpod("run", name, "--image", "busybox:1", *on, "--wait")
    patch = json.dumps({"spec": {"containers": [{"name": name, "image": "busybox:2"}]}})
    assert (await syncpod("patch", "pod", name, "-p", patch)).out == f"pod/{name} patched\n"
    assert (await syncpod("patch", name, "-p", patch)).out == f"pod/{name} patched (no change)\n"
    assert (await shown(syncpod, name))["spec"]["containers"][0]["image"] == "busybox:2"
    refused = await syncpod("patch", name, "--type", "merge", "-p", "spec: {hostNetwork: true}")
    assert refused.code == 2 and "spec.hostNetwork: may not be changed" in refused.err
    renamed = await syncpod("patch", name, "-p", "metadata: {name: other}")
    assert renamed.code == 2 and "metadata.name: may not be changed" in renamed.err
    moved = await syncpod("patch", name, "-p", "spec: {nodeName: other}")
    assert moved.code == 2 and "spec.nodeName: may not be changed: it is " in moved.err
    lost = await syncpod("patch", name, "--type", "json", "-p", '[{"op": "remove", "path": "/none"}]')
    assert (lost.code, lost.err) == (2, "syncpod: --patch: [0] /none: leads nowhere\n")


async def test_an_edit_is_applied_and_a_refused_one_is_kept_in_a_file(
    syncpod: Command, on: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = fresh_name()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await syncpod("run", name, "--image", "busybox:1", *on, "--wait")
    edited = await syncpod("edit", "pod", name, "--editor", "sed -i s/busybox:1/busybox:3/")
    assert (edited.code, edited.out) == (0, f"pod/{name} edited\n"), edited.err
    assert (await shown(syncpod, name))["spec"]["containers"][0]["image"] == "busybox:3"
    same = await syncpod("edit", name, "--editor", "true")
    assert (same.code, same.err) == (0, "Edit cancelled, no changes made.\n")
    assert not kept_in(tmp_path)
    refused = await syncpod("edit", name, "--editor", "sed -i s/containers:/continers:/")
    (kept,) = kept_in(tmp_path)
    assert refused.code == 2 and refused.err.endswith(f"syncpod: your changes are kept in {kept}\n")
    absent = await syncpod("edit", name, "--editor", "/none/editor")
    assert absent.code == 2 and "/none/editor: No such file or directory" in absent.err
