"""A manifest directory as a source of pods, with real files and a real watch.

Holds: A node reaches the state that its lists ask for, even if messages are lost on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.sources import manifest_files, manifest_source
from syncpod.agent.sources.desired_pods import DesiredPods, Listing
from syncpod.agent.sources.manifest_files import ManifestFiles
from syncpod.agent.sources.manifest_report import ManifestReport
from syncpod.agent.sources.manifest_source import ManifestSource
from syncpod.kernel.inotify import DirectoryChange, DirectoryWatch
from syncpod.pod import LARGEST_MANIFEST
from tests.agent.waiting import until
from tests.pod.test_admission import MIRROR

NODE = "Node-1".lower()


def pod(name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
        **more,
    }


class Directory:
    """A manifest directory, and what was read from it."""

    def __init__(self, home: Path) -> None:
        self.path = home / "manifests"
        self.path.mkdir()
        self.state = home / "state"
        self.state.mkdir()
        self.files = self.again()

    def again(self) -> ManifestFiles:
        """A reader in a later life of the worker."""
        self.files = ManifestFiles(self.path, NODE, self.state)
        return self.files

    def write(self, file: str, content: Any) -> Path:
        """Replace a file, as editors do, with a pod as YAML."""
        path = self.path / file
        draft = self.state / file
        draft.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        draft.replace(path)
        return path

    def names(self) -> list[str]:
        return names(self.files.look())


def names(listing: Listing) -> list[str]:
    return [each["metadata"]["name"] for each in listing.pods]


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_static_pod_may_refer_to_objects_of_its_node(directory: Directory) -> None:
    """Differently: a kubelet refuses it, and one of 1.37 every API object (kubernetes/kubernetes#140226)."""
    refers = pod("refers")
    refers["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    refers["spec"]["volumes"] = [{"name": "keys", "secret": {"secretName": "keys"}}]
    directory.write("refers.yaml", refers)
    listing = directory.files.look()
    assert (names(listing), listing.problems) == ([f"refers-{NODE}"], ())


def test_each_file_is_one_pod_in_name_order_and_hidden_files_are_ignored(directory: Directory) -> None:
    """Row 1: files with a single Pod; hidden files and directories are ignored."""
    directory.write("b.yaml", pod("b"))
    directory.write(
        "a.json",
        '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"m","image":"i"}]}}',
    )
    directory.write(".c.yaml", pod("c"))
    (directory.path / "d").mkdir()
    (directory.path / "d" / "e.yaml").write_text(yaml.safe_dump(pod("e")))
    listing = directory.files.look()
    assert (names(listing), listing.problems) == ([f"a-{NODE}", f"b-{NODE}"], ())
    assert listing.pods[1]["spec"]["terminationGracePeriodSeconds"] == 30  # with its defaults


def test_a_mirror_pod_of_another_node_becomes_a_static_pod_of_this_node(directory: Directory) -> None:
    """Row 2: what `kubectl get -o yaml` prints of a static pod has another kubelet's annotations and node."""
    directory.write("etcd.yaml", MIRROR)
    listing = directory.files.look()
    assert (names(listing), listing.problems) == ([f"etcd-worker-1-{NODE}"], ())
    ((metadata, spec),) = [(each["metadata"], each["spec"]) for each in listing.pods]
    assert metadata["annotations"] == {"prometheus.io/port": "2381", "kubernetes.io/config.hash": metadata["uid"]}
    assert (spec["nodeName"], spec["tolerations"]) == (NODE, [{"operator": "Exists", "effect": "NoExecute"}])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "a.yaml"),
        (yaml.safe_dump(pod("a", spec={"containers": []})), "spec.containers: required"),
        (yaml.safe_dump(pod("a", spce={})), "spce"),
        (yaml.safe_dump_all([pod("a"), pod("b")]), "must hold one Pod, and nothing else"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "must hold one Pod"),
        ("", "must hold one Pod"),
        (yaml.safe_dump(pod("a" * 253)), "metadata.name"),
        ("#" * (LARGEST_MANIFEST + 1), "larger than 10 MiB"),
    ],
    ids=["no YAML", "no containers", "unknown field", "two pods", "no pod", "empty", "name too long", "too large"],
)
def test_an_invalid_file_is_reported_and_its_previous_pod_kept(directory: Directory, content: str, said: str) -> None:
    directory.write("a.yaml", pod("a"))
    directory.write("b.yaml", pod("b"))
    before = directory.files.look()
    path = directory.write("a.yaml", content)
    after = directory.files.look()
    assert after.pods == before.pods
    (problem,) = after.problems
    assert problem.startswith(str(path))
    assert said in problem
    # In the next life nothing is known of what the file said, but which pod it made is.
    listing = directory.again().look()
    assert (names(listing), [each.name for each in listing.kept]) == ([f"b-{NODE}"], [f"a-{NODE}"])
    path.unlink()
    assert directory.files.look().kept == ()
    assert directory.again().look().kept == ()


def test_on_a_full_disk_a_removed_file_still_removes_its_pod(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data that only the next worker needs is written again in each round, and the failure is reported meanwhile."""
    for name in ("a", "b"):
        directory.write(f"{name}.yaml", pod(name))
    assert directory.names() == [f"a-{NODE}", f"b-{NODE}"]

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(manifest_files, "replace_file", no_room)
        (directory.path / "b.yaml").unlink()
        for _ in range(2):
            listing = directory.files.look()
            assert names(listing) == [f"a-{NODE}"]
            (problem,) = listing.problems
            assert problem.endswith("cannot be stored for the next start: No space left on device")
    assert directory.files.look().problems == ()
    directory.write("b.yaml", "{")
    assert directory.again().look().kept == ()


def test_a_note_that_cannot_be_synced_is_said_and_synced_later(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.write("a.json", json.dumps(pod("a")))
    directory.files.look()
    synced: list[Path] = []

    def broken(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(manifest_files, "sync_file", broken)
    assert directory.files.settle().endswith("may be lost by a power cut: Input/output error")
    monkeypatch.setattr(manifest_files, "sync_file", synced.append)
    assert (directory.files.settle(), directory.files.settle()) == ("", "")
    assert [path.parent for path in synced] == [directory.state]


def test_a_dangling_manifest_link_keeps_its_pod_until_the_link_is_removed(directory: Directory, tmp_path: Path) -> None:
    """For example a link into a tree that is being cloned again, or is not mounted yet."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.yaml").write_text(yaml.safe_dump(pod("a")))
    link = directory.path / "a.yaml"
    link.symlink_to(tree / "a.yaml")
    before = directory.files.look()
    assert names(before) == [f"a-{NODE}"]
    tree.rename(tmp_path / "elsewhere")
    away = directory.files.look()
    assert (away.pods, away.problems) == (before.pods, (f"{link}: is a dangling link",))
    assert [each.name for each in directory.again().look().kept] == [f"a-{NODE}"]
    (tmp_path / "elsewhere").rename(tree)
    assert directory.files.look() == before
    link.unlink()
    assert directory.files.look() == Listing((), (), ())


def test_a_path_that_is_not_a_file_is_reported_without_blocking(directory: Directory) -> None:
    os.mkfifo(directory.path / "pipe.yaml")
    (directory.path / "loop.yaml").symlink_to("loop.yaml")
    directory.write("a.yaml", pod("a"))
    listing = directory.files.look()
    assert names(listing) == [f"a-{NODE}"]
    assert [problem.split(":")[0].rpartition("/")[2] for problem in listing.problems] == ["loop.yaml", "pipe.yaml"]


@pytest.mark.parametrize(
    ("becomes", "said"),
    [(os.mkfifo, "must be a file"), (lambda path: os.truncate(path, 1 << 30), "larger than 10 MiB")],
)
def test_a_file_replaced_while_it_is_read_neither_blocks_nor_is_read_without_bound(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, becomes: Callable[[Path], None], said: str
) -> None:
    path = directory.write("a.yaml", pod("a"))
    opened = os.open

    def too_late(file: str | Path, *arguments: Any, **options: Any) -> int:
        if file == path:
            if becomes is os.mkfifo:
                path.unlink()
            becomes(path)
        return opened(file, *arguments, **options)

    monkeypatch.setattr(os, "open", too_late)
    found: list[Listing] = []
    reading = threading.Thread(target=lambda: found.append(directory.files.look()), daemon=True)
    reading.start()
    reading.join(60)
    assert [problem.partition(": ")[2] for listing in found for problem in listing.problems] == [said]


def test_of_two_files_with_the_same_pod_name_the_first_is_used(directory: Directory) -> None:
    directory.write("b.yaml", pod("a"))
    directory.write("a.yaml", pod("a"))
    listing = directory.files.look()
    assert names(listing) == [f"a-{NODE}"]
    assert "b.yaml: ignored, since a.yaml also makes pod default/a-node-1" in listing.problems[0]
    (directory.path / "a.yaml").unlink()
    assert directory.files.look().problems == ()


def test_a_directory_that_was_never_there_has_no_pods_and_one_that_is_none_is_reported(tmp_path: Path) -> None:
    assert ManifestFiles(tmp_path / "none", NODE, tmp_path).look() == Listing((), (), ())
    (tmp_path / "file").write_text("")
    listing = ManifestFiles(tmp_path / "file", NODE, tmp_path).look()
    assert (listing.pods, listing.kept) == ((), ())
    assert listing.problems == (f"{tmp_path}/file: cannot be read (Not a directory); its pods run on until it is back",)


def test_a_file_rewritten_at_once_is_read_again(directory: Directory) -> None:
    path = directory.write("a.yaml", pod("a"))
    assert directory.names() == [f"a-{NODE}"]
    stamps = path.stat()
    path.write_text(path.read_text().replace("name: a", "name: b"))  # in place, of the same size
    os.utime(path, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert directory.names() == [f"b-{NODE}"]


# --- following --------------------------------------------------------------------------------------------------------


class Told:
    """A receiver of a directory's pods, which records what the source sends."""

    def __init__(self) -> None:
        self.heard: list[Listing] = []
        self.failing = 0
        self.is_read = False
        self.looked = 0
        """The number of searches for pods that somebody has ended."""
        self.said: tuple[str, ...] = ()
        self.is_closed = False

    async def take(self, listing: Listing) -> None:
        if self.failing:
            self.failing -= 1
            raise RPCError("the server is away", RPCStatusCode.UNAVAILABLE, b"")
        self.is_read = True
        if [listing] != self.heard[-1:]:
            self.heard.append(listing)

    async def find_ended(self) -> None:
        self.looked += 1

    async def close(self) -> None:
        self.is_closed = True

    def problems(self, problems: tuple[str, ...]) -> None:
        self.said = problems

    @property
    def names(self) -> list[str]:
        return names(self.heard[-1]) if self.heard else ["nothing yet"]


def source_of(directory: Directory, told: Told, *, reread: float = 60.0) -> ManifestSource:
    """A source that follows the directory; by default it rereads seldom."""
    pods, report = cast(DesiredPods, told), cast(ManifestReport, told)
    return ManifestSource(directory.files, pods, report, reread=reread)


@contextlib.asynccontextmanager
async def following(directory: Directory, told: Told, *, reread: float = 60.0) -> AsyncIterator[ManifestSource]:
    source = source_of(directory, told, reread=reread)
    task = asyncio.create_task(source.run())
    try:
        yield source
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert told.is_closed


async def seen(condition: Callable[[], bool]) -> None:
    await until(condition, patience=60)


async def test_only_added_changed_and_removed_files_are_reported_and_at_once(directory: Directory) -> None:
    told = Told()
    directory.write("a.yaml", pod("a"))
    async with following(directory, told) as source:
        await seen(lambda: told.names == [f"a-{NODE}"])
        directory.write("b.yaml", pod("b"))
        await seen(lambda: told.names == [f"a-{NODE}", f"b-{NODE}"])
        first = told.heard[-1].pods[0]["metadata"]["uid"]
        directory.write("a.yaml", pod("a", spec={"containers": [{"name": "main", "image": "busybox:2"}]}))
        await seen(lambda: told.heard[-1].pods[0]["metadata"]["uid"] != first)
        directory.write("b.yaml", "{")
        await seen(lambda: bool(told.heard[-1].problems))
        assert told.names == [f"a-{NODE}", f"b-{NODE}"]
        for path in directory.path.iterdir():
            path.unlink()
        await seen(lambda: told.names == [])
        count = len(told.heard)
        directory.write(".hidden", "x")
        await source.round()
        assert len(told.heard) == count


async def test_a_file_name_that_is_not_utf_8_is_followed_like_any_other(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    odd = directory.path / os.fsdecode(b"odd\xff.yaml")
    async with following(directory, told):
        await seen(lambda: told.is_read)
        odd.write_text("")
        await seen(lambda: bool(told.heard[-1].problems))
        assert told.heard[-1].problems[0].startswith(f"{directory.path}/odd\\xff.yaml: must hold one Pod")
        odd.write_text(yaml.safe_dump(pod("odd")))
        await seen(lambda: told.names == [f"odd-{NODE}"])
        directory.write("a.yaml", pod("a"))  # the others are still followed
        await seen(lambda: told.names == [f"a-{NODE}", f"odd-{NODE}"])
        odd.unlink()
        await seen(lambda: told.names == [f"a-{NODE}"])
    assert not [each.message for each in caplog.records if "cannot be watched" in each.message]


async def test_a_directory_that_cannot_be_watched_is_reread(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a user has no inotify instance left."""

    def refuses(_: Path) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(manifest_source, "DirectoryWatch", refuses)
    told = Told()
    async with following(directory, told, reread=0.05):
        await seen(lambda: told.names == [])
        directory.write("a.yaml", pod("a"))
        await seen(lambda: told.names == [f"a-{NODE}"])
    said = [each.message for each in caplog.records if "cannot be watched" in each.message]
    assert said == [f"the manifests in {directory.path} cannot be watched: Too many open files"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the wait for incomplete changes, so that a test's next action comes in time."""
    for name in ("GONE_SECONDS", "SETTLED_SECONDS", "UNSETTLED_SECONDS"):
        monkeypatch.setattr(manifest_source, name, 60.0)


@pytest.mark.usefixtures("patient")
async def test_a_removed_file_that_is_replaced_at_once_keeps_its_pod(directory: Directory) -> None:
    """A removal is read once nothing more follows it: `rm a.yaml; cp new a.yaml` is one change."""
    told = Told()
    path = directory.write("a.yaml", pod("a"))
    async with following(directory, told):
        await seen(lambda: told.names == [f"a-{NODE}"])
        path.unlink()
        directory.write("a.yaml", pod("b"))
        await seen(lambda: told.names == [f"b-{NODE}"])
    assert [len(each.pods) for each in told.heard] == [1, 1]


def _writes_it_anew(path: Path) -> None:
    text = path.read_text()
    path.unlink()
    path.write_text(text)


def _moves_it_away_and_back(path: Path) -> None:
    path.rename(path.parent.parent / "away")
    (path.parent.parent / "away").rename(path)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("edit", [_writes_it_anew, _moves_it_away_and_back])
async def test_a_removed_file_that_is_back_at_once_is_the_same_pod_again(
    directory: Directory, edit: Callable[[Path], None]
) -> None:
    """Row 9: its UID is the same, and a kubelet restarts it."""
    told = Told()
    path = directory.write("a.yaml", pod("a"))
    directory.write("other.yaml", pod("other"))
    async with following(directory, told):
        await seen(lambda: told.names == [f"a-{NODE}", f"other-{NODE}"])
        edit(path)
        directory.write("b.yaml", pod("b"))
        await seen(lambda: told.names == [f"a-{NODE}", f"b-{NODE}", f"other-{NODE}"])
        directory.write("c.yaml", pod("c"))
        await seen(lambda: len(told.names) == 4)
    assert len({each.pods[0]["metadata"]["uid"] for each in told.heard}) == 1
    assert [key.name for each in told.heard for key in each.replaced] == [f"a-{NODE}"]


@pytest.mark.usefixtures("patient")
async def test_a_file_in_whose_place_another_is_moved_is_no_change(directory: Directory) -> None:
    """Most programs replace a file in this way; the new file was hidden or in another directory before."""
    told = Told()
    path = directory.write("a.yaml", pod("a"))
    async with following(directory, told):
        await seen(lambda: told.names == [f"a-{NODE}"])
        for draft in (path.with_name(".a.yaml.new"), path.with_name("a.yaml.tmp"), path.parent.parent / "a.yaml"):
            draft.write_text(path.read_text())
            draft.rename(path)
        directory.write("b.yaml", pod("b"))
        await seen(lambda: told.names == [f"a-{NODE}", f"b-{NODE}"])
    assert not any(each.replaced for each in told.heard)


def test_a_file_that_comes_back_broken_restarts_its_pod_once_it_is_whole(directory: Directory) -> None:
    """Two files of one pod: only that counts which has made it."""
    path = directory.write("a.yaml", pod("a"))
    twin = directory.write("b.yaml", pod("a"))
    made = directory.files.look().pods
    path.write_text("{")
    broken = directory.files.look(["a.yaml", "b.yaml", "c.yaml"])
    assert (broken.pods, broken.replaced) == (made, frozenset())
    directory.write("a.yaml", pod("a"))
    whole = directory.files.look()
    assert (whole.pods, [key.name for key in whole.replaced]) == (made, [f"a-{NODE}"])
    assert not directory.files.look(["b.yaml"]).replaced
    path.unlink()
    twin.unlink()
    assert (directory.files.look(["a.yaml"]).pods, directory.files.look().replaced) == ((), frozenset())
    directory.write("a.yaml", pod("a"))
    assert not directory.files.look().replaced, "it has been seen to be gone, and its pod has been ended by that"


@pytest.mark.usefixtures("patient")
async def test_a_removed_file_in_whose_place_an_invalid_one_comes_at_once_keeps_its_pod(directory: Directory) -> None:
    told = Told()
    path = directory.write("a.yaml", pod("a"))
    async with following(directory, told):
        await seen(lambda: told.names == [f"a-{NODE}"])
        path.unlink()
        path.write_text("{")
        await seen(lambda: bool(told.heard[-1].problems))
    assert told.heard[-1].pods == told.heard[0].pods


async def test_a_directory_that_appears_is_followed_and_one_in_its_place_too(directory: Directory) -> None:
    directory.path.rmdir()
    told = Told()
    async with following(directory, told, reread=0.2):
        await seen(lambda: told.is_read)
        assert told.names == []
        directory.path.mkdir()
        directory.write("a.yaml", pod("a"))
        await seen(lambda: told.names == [f"a-{NODE}"])
        directory.path.rename(directory.path.with_name("old"))
        directory.path.mkdir()
        directory.write("b.yaml", pod("b"))
        await seen(lambda: told.names == [f"b-{NODE}"])


async def test_a_directory_that_is_replaced_at_once_is_not_even_reported(directory: Directory) -> None:
    told = Told()
    source = source_of(directory, told)
    directory.write("a.yaml", pod("a"))
    await source.round()
    away = directory.path.with_name("away")
    directory.path.rename(away)
    await source.round()
    away.rename(directory.path)
    await source.round(slow=True)
    assert not any(each.problems for each in told.heard)
    directory.path.rename(away)
    await source.round(slow=True)
    assert told.names == [f"a-{NODE}"]
    assert told.heard[-1].problems == (
        f"{directory.path}: is missing; its pods run on until it is back: an empty directory in its place ends them",
    )


async def test_a_directory_is_taken_once_the_server_is_back(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_source, "_RETRY_SECONDS", 0.01)
    told = Told()
    told.failing = 3
    directory.write("a.yaml", pod("a"))
    async with following(directory, told):
        await seen(lambda: told.is_read)
    assert (told.failing, told.names) == (0, [f"a-{NODE}"])


async def test_nonsense_in_the_directory_leaves_room_for_its_pods(directory: Directory) -> None:
    """Thousands of broken files with long names, and one with thousands of errors: their problems alone fill a list."""
    long = "x" * 200
    for index in range(6_000):
        (directory.path / f"junk-{index:04}-{long}.yaml").touch()
    containers = [{"name": "main", "image": "busybox:1", f"wrong{index}": 1} for index in range(2_000)]
    (directory.path / "errors.json").write_text(json.dumps(pod("errors", spec={"containers": containers})))
    directory.write("pod.yaml", pod("a"))
    told = Told()
    await source_of(directory, told).round()
    [message] = told.heard
    assert [each["metadata"]["name"] for each in message.pods] == [f"a-{NODE}"]
    assert len(message.problems) == 101
    assert message.problems[-1].endswith("/manifests: has 5901 more such files, which are not named")
    assert sum(map(len, message.problems)) < 150_000


async def test_pods_ended_by_others_are_looked_for_when_the_directory_is_reread(directory: Directory) -> None:
    told = Told()
    source = source_of(directory, told)
    await source.round()
    assert told.looked == 0
    await source.round(slow=True)
    assert told.looked == 1


async def test_a_directory_that_never_rests_is_reread_all_the_same(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a file is written every few seconds, a terminated workflow of a pod is noticed."""

    class Restless(DirectoryWatch):
        async def noticed(self, seconds: float) -> DirectoryChange:
            await asyncio.sleep(0.01)
            return DirectoryChange.COMPLETE

    monkeypatch.setattr(manifest_source, "DirectoryWatch", Restless)
    told = Told()
    async with following(directory, told, reread=0.1):
        await seen(lambda: told.looked >= 3)


async def test_a_hung_manifest_file_system_blocks_nothing_else(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, stat = Told(), Path.stat
    asked, answers, gave_up = threading.Event(), threading.Event(), threading.Event()

    def hangs(path: Path, **how: Any) -> os.stat_result:
        if path == directory.path:
            asked.set()
            if not answers.wait(10):
                gave_up.set()
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", hangs)
    directory.write("a.yaml", pod("a"))
    async with following(directory, told):
        await seen(asked.is_set)
        answers.set()  # which only a running loop can report
        await seen(lambda: told.names == [f"a-{NODE}"])
    assert not gave_up.is_set()
