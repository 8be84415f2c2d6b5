"""Links to containers' logs for log agents: made, replaced, and removed with the logs."""

from pathlib import Path

import pytest

from syncpod.node.log_links import (
    dangling_links,
    links_directory,
    make_log_link,
    remove_all_links,
    remove_log_link,
    remove_pod_links,
)

UID = "11111111-2222-3333-4444-555555555555"
ID = "abc123" * 10


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The directory of the pods' logs."""
    return tmp_path / "log" / "pods"


def a_log(logs: Path, *, pod: str = "web", namespace: str = "default", number: int = 0) -> Path:
    log = logs / f"{namespace}_{pod}_{UID}" / "main" / f"{number}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("hello")
    return log


def names(logs: Path) -> list[str]:
    return sorted(path.name for path in links_directory(logs).iterdir())


def test_a_log_link_has_the_kubelets_path_and_name_and_points_to_the_log(logs: Path) -> None:
    """Row 41: `<pod>_<namespace>_<container>-<id>.log`."""
    assert links_directory(Path("/var/log/pods")) == Path("/var/log/containers")
    log = a_log(logs)
    for _ in range(2):
        make_log_link(logs, log, "main", ID)
        (link,) = links_directory(logs).iterdir()
        assert (link.name, link.readlink()) == (f"web_default_main-{ID}.log", log)
        assert link.read_text() == "hello"


def test_no_link_is_made_to_a_missing_or_foreign_log(logs: Path, tmp_path: Path) -> None:
    a_log(logs)
    (tmp_path / "0.log").touch()
    for log in (logs / f"default_web_{UID}" / "main" / "1.log", tmp_path / "0.log", logs / "x" / ".." / "0.log"):
        make_log_link(logs, log, "main", ID)
    assert not links_directory(logs).exists()


def test_a_long_link_name_is_truncated_and_points_to_the_newest_instance(logs: Path) -> None:
    pod = "a" * 200
    first, second = (a_log(logs, pod=pod, namespace="n" * 10, number=number) for number in (0, 1))
    for log, id_ in ((first, "1" * 64), (second, "2" * 64)):
        make_log_link(logs, log, "c" * 40, id_)
    (name,) = names(logs)
    assert (len(name), name) == (255, f"{pod}_{'n' * 10}_{'c' * 39}.log")
    remove_log_link(logs, first, "c" * 40, "1" * 64)
    assert (links_directory(logs) / name).readlink() == second
    remove_pod_links(second.parents[1], "n" * 10, pod)
    assert names(logs) == []


def test_only_links_to_removed_logs_are_removed(logs: Path, tmp_path: Path) -> None:
    """Row 112: one container's, one pod's, or all of them; a kubelet's stay."""
    for pod in ("web", "web-2"):
        for number in (0, 1):
            make_log_link(logs, a_log(logs, pod=pod, number=number), "main", f"{pod}{number}")
    theirs = links_directory(logs) / "web_default_main-theirs.log"
    theirs.symlink_to("/var/lib/docker/containers/theirs.log")
    real = links_directory(logs) / "web_default_main-real.log"
    real.write_text("no link")
    remove_log_link(logs, a_log(logs), "main", "web0")
    assert "web_default_main-web0.log" not in names(logs)
    for _ in range(2):
        remove_pod_links(logs / f"default_web_{UID}", "default", "web")
        assert names(logs) == [
            "web-2_default_main-web-20.log", "web-2_default_main-web-21.log", real.name, theirs.name,
        ]  # fmt: skip
    remove_all_links(logs)
    assert names(logs) == [real.name, theirs.name]
    real.unlink()
    theirs.unlink()
    for _ in range(2):
        remove_all_links(logs)
        assert not links_directory(logs).exists()


def test_a_regular_file_with_the_name_of_a_link_is_kept(logs: Path) -> None:
    log = a_log(logs)
    links_directory(logs).mkdir(parents=True)
    place = links_directory(logs) / f"web_default_main-{ID}.log"
    place.write_text("theirs")
    with pytest.raises(FileExistsError):
        make_log_link(logs, log, "main", ID)
    remove_log_link(logs, log, "main", ID)
    assert place.read_text() == "theirs"


def test_a_dangling_link_names_its_container_and_its_pods_logs(logs: Path) -> None:
    log = a_log(logs)
    make_log_link(logs, log, "main", ID)
    (links_directory(logs) / "other.log").symlink_to("/nowhere/a/b/0.log")
    assert dangling_links(logs) == ()
    log.unlink()
    (found,) = dangling_links(logs)
    assert (found.link.name, found.container_id, found.logs) == (f"web_default_main-{ID}.log", ID, log.parents[1])
