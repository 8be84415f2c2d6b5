"""A kubelet's sockets are where programs look for them."""

from __future__ import annotations

from pathlib import Path

from syncpod.cli.kubelet.doors import link_sockets


def test_a_nodes_sockets_are_found_below_the_root_directory_and_what_is_there_already_stays(tmp_path: Path) -> None:
    root, state = tmp_path / "kubelet", tmp_path / "kubelet" / "syncpod"
    state.mkdir(parents=True)
    (root / "pod-resources").symlink_to(tmp_path / "elsewhere")  # of another state directory
    (root / "old").mkdir()
    (root / "old" / "kubelet.sock").touch()
    for _ in range(2):
        warnings = list(link_sockets(root, state, ("pod-resources", "pods-api", "old")))
        assert warnings == [f"{root}/old: File exists: programs have to look for the socket in {state}/old"]
        assert (root / "pod-resources").readlink() == state / "pod-resources"
        assert (root / "pods-api").readlink() == state / "pods-api"
        assert (root / "old" / "kubelet.sock").exists()
