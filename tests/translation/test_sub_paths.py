"""The sub-paths of volumes that must be prepared, and their host paths."""

from pathlib import Path
from typing import Any

import pytest

from syncpod.translation import ContainerConfigError
from syncpod.translation.sub_paths import plan_sub_paths, sub_path_texts
from syncpod.volumes.subpath import SubPath
from tests.translation.translation import NODE, UID, as_data, configured, make_container

VOLUMES: list[dict[str, Any]] = [
    {"name": "scratch", "emptyDir": {}},
    {"name": "logs", "hostPath": {"path": "/var/log"}},
    {"name": "tools", "image": {"reference": "busybox:1"}},
]
MOUNTS = [
    {"name": "logs", "mountPath": "/all"},
    {"name": "logs", "mountPath": "/logs", "subPathExpr": "pods/$(NAME)"},
    {"name": "scratch", "mountPath": "/scratch", "subPath": "a/b"},
    {"name": "tools", "mountPath": "/tools", "subPath": "bin"},
]
POD, CONTAINER = make_container({"volumeMounts": MOUNTS}, volumes=VOLUMES)
TEXTS = {1: "pods/web", 2: "a/b", 3: "bin"}


def texts(mount: dict[str, Any], **variables: str) -> dict[int, str]:
    _, container = make_container({"volumeMounts": [{"name": "logs", "mountPath": "/x", **mount}]}, volumes=VOLUMES)
    return sub_path_texts(container, variables, "spec.containers[0]")


def test_sub_paths_are_listed_by_mount_index() -> None:
    assert sub_path_texts(CONTAINER, {"NAME": "web"}, "spec.containers[0]") == TEXTS


def test_sub_paths_are_prepared_below_the_pod_directory_except_for_image_volumes() -> None:
    places = Path(f"/var/lib/syncpod/pods/{UID}/volume-subpaths")
    scratch = Path(f"/var/lib/syncpod/pods/{UID}/volumes/kubernetes.io~empty-dir/scratch")
    assert plan_sub_paths(POD, CONTAINER, NODE, TEXTS) == {
        1: SubPath("logs", "main", Path("/var/log"), "pods/web", places / "logs" / "main" / "1"),
        2: SubPath("scratch", "main", scratch, "a/b", places / "scratch" / "main" / "2"),
    }


def test_mounts_use_prepared_sub_paths_and_the_image_sub_path_field() -> None:
    config = configured(POD, CONTAINER, sub_paths={1: "/place/1", 2: "/place/2", 3: "bin"})
    made = [as_data(mount) for mount in config.mounts[:4]]
    assert [each.get("host_path", "") for each in made] == ["/var/log", "/place/1", "/place/2", ""]
    assert made[3]["image_sub_path"] == "bin"


def test_a_mount_with_an_unprepared_sub_path_is_an_error() -> None:
    with pytest.raises(ContainerConfigError, match="has not been prepared"):
        configured(POD, CONTAINER, sub_paths={1: "/place/1", 3: "bin"})


def test_dollar_signs_in_sub_path_are_literal() -> None:
    assert texts({"subPath": "$(NAME)"}, NAME="web") == {0: "$(NAME)"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "values that are missing or empty": ({"subPathExpr": "$(Z)/$(A)/$(EMPTY)"}, "missing value for A, EMPTY, Z"),
    "an absolute value": ({"subPathExpr": "$(ROOT)"}, "error SubPath `$(ROOT)` must not be an absolute path"),
    "a value that climbs": (
        {"subPathExpr": "x/$(UP)"},
        "unable to provision SubPath `x/$(UP)`: must not contain '..'",
    ),
    "a value that is not text": (
        {"subPathExpr": "$(RAW)"},
        "spec.containers[0].volumeMounts[0].subPathExpr: refers to a value that is not UTF-8 text",
    ),
}


@pytest.mark.parametrize(("mount", "message"), REFUSED.values(), ids=REFUSED)
def test_an_error_quotes_the_sub_path_expression_unexpanded(mount: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerConfigError) as refused:
        texts(mount, EMPTY="", ROOT="/etc", UP="..", RAW="\udcff")
    assert str(refused.value) == message
