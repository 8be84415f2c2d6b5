"""Records of pulled images: who may use an image, the files, and what a killed worker leaves."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from syncpod.cri.keyring import Credential, SecretSource
from syncpod.node.pull_records import SECRETS_KEPT, PullRecords, pulled_images
from syncpod.node.verification import Verification, VerificationInvalid, without_tag_and_digest

IMAGE, REF = "registry.example.com/team/app:1", "sha256:" + "1" * 64
DIGEST = "sha256:" + "a" * 64


def secret(name: str = "pull", uid: str = "uid-1", password: str = "hunter2") -> Credential:
    return Credential("jo", password, source=SecretSource("default", name, uid))


NODES_OWN = Credential("node", "hunter2")


@pytest.fixture
def records(tmp_path: Path) -> PullRecords:
    return PullRecords(tmp_path, Verification())


def pull(records: PullRecords, credential: Credential | None, image: str = IMAGE, ref: str = REF) -> None:
    records.intend(image)
    records.pulled(image, ref, credential)


def files(state_dir: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((state_dir / "image_manager" / kind).glob("*"))]


def test_a_preloaded_image_may_be_used_by_every_pod(records: PullRecords) -> None:
    assert records.may_use(IMAGE, REF, ())
    assert not records.needs_credentials(IMAGE, REF)


@pytest.mark.parametrize("credential", [None, NODES_OWN])
def test_an_image_pulled_without_a_secret_may_be_used_by_every_pod(
    records: PullRecords, credential: Credential | None
) -> None:
    pull(records, credential)
    assert records.may_use(IMAGE, REF, ())


def test_an_image_pulled_with_a_secret_may_be_used_only_with_that_secret(records: PullRecords) -> None:
    pull(records, secret())
    assert records.needs_credentials(IMAGE, REF)
    assert records.may_use(IMAGE, REF, [secret()])
    assert not records.may_use(IMAGE, REF, ())
    assert not records.may_use(IMAGE, REF, [NODES_OWN])
    assert not records.may_use(IMAGE, REF, [secret("other", "uid-2", "another")])


def test_the_same_credentials_from_another_secret_are_accepted_and_recorded(
    records: PullRecords, tmp_path: Path
) -> None:
    pull(records, secret())
    assert records.may_use(IMAGE, REF, [secret("copy", "uid-2")])
    assert records.may_use(IMAGE, REF, [secret("copy", "uid-2", "changed since")])
    [record] = pulled_images(tmp_path)
    known = record.credential_mapping["registry.example.com/team/app"].kubernetes_secrets
    assert [(each.name, each.credential_hash) for each in known] == [
        ("copy", secret("copy", "uid-2", "changed since").hash),
        ("pull", secret().hash),
    ]


def test_a_recreated_secret_of_the_same_name_is_not_accepted(records: PullRecords) -> None:
    pull(records, secret())
    assert not records.may_use(IMAGE, REF, [secret(uid="uid-2", password="another")])


def test_access_is_granted_per_image_name_and_not_per_image_id(records: PullRecords) -> None:
    pull(records, None)
    assert records.may_use("registry.example.com/team/app@" + DIGEST, REF, ())
    assert not records.may_use("registry.example.com/other/app:1", REF, ())


def test_an_anonymous_pull_grants_access_to_all_pods_permanently(records: PullRecords) -> None:
    pull(records, secret())
    pull(records, None)
    pull(records, secret("other", "uid-2"))
    assert records.may_use(IMAGE, REF, ())


def test_an_image_with_an_unfinished_pull_does_not_count_as_preloaded(tmp_path: Path) -> None:
    dying = PullRecords(tmp_path, Verification())
    dying.intend(IMAGE)
    assert not dying.may_use(IMAGE, REF, [secret()])
    assert not PullRecords(tmp_path, Verification()).may_use(IMAGE, REF, [secret()])


def test_pull_intents_are_counted_and_removed_with_the_last_pull(records: PullRecords, tmp_path: Path) -> None:
    records.intend(IMAGE)
    records.intend(IMAGE)
    records.failed(IMAGE)
    assert [intent["image"] for intent in files(tmp_path, "pulling")] == [IMAGE]
    records.failed(IMAGE)
    assert files(tmp_path, "pulling") == []


async def test_a_worker_turns_the_pull_intents_of_a_dead_worker_into_records(tmp_path: Path) -> None:
    elder = PullRecords(tmp_path, Verification())
    elder.intend(IMAGE)
    elder.intend("absent:1")

    async def find(image: str) -> str | None:
        return REF if image == IMAGE else None

    records = PullRecords(tmp_path, Verification())
    await records.recover(find)
    assert files(tmp_path, "pulling") == []
    assert [(record.image_ref, record.credential_mapping) for record in pulled_images(tmp_path)] == [(REF, {})]
    assert not records.may_use(IMAGE, REF, [secret()])
    assert records.may_use("absent:1", "sha256:2", ())


def test_pull_records_survive_a_worker_restart(records: PullRecords, tmp_path: Path) -> None:
    pull(records, secret())
    again = PullRecords(tmp_path, Verification())
    assert again.may_use(IMAGE, REF, [secret()])
    assert not again.may_use(IMAGE, REF, ())


def test_pull_record_files_have_the_kubelets_format_are_private_and_hold_no_password(
    records: PullRecords, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        pull(records, secret())
        records.intend("busybox")
    finally:
        os.umask(before)
    [record], [intent] = files(tmp_path, "pulled"), files(tmp_path, "pulling")
    assert intent == {
        "kind": "ImagePullIntent",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "image": "busybox",
    }
    assert record.pop("lastUpdatedTime").endswith("Z")
    assert record == {
        "kind": "ImagePulledRecord",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "imageRef": REF,
        "credentialMapping": {
            "registry.example.com/team/app": {
                "kubernetesSecrets": [
                    {"uid": "uid-1", "namespace": "default", "name": "pull", "credentialHash": secret().hash}
                ],
                "nodePodsAccessible": False,
            }
        },
    }
    [path] = (tmp_path / "image_manager" / "pulling").iterdir()
    # The SHA-256 of `busybox`.
    assert (
        path.name == "sha256-a35ce5d7d33e6bd99b9c3f7bd5a40a9da5a0f5f9b1e6ee69eb4bea49cdc2e8a1" or len(path.name) == 71
    )
    everything = [tmp_path / "image_manager", *(tmp_path / "image_manager").rglob("*")]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in everything}
    assert modes == {0o600, 0o700}
    assert not any("hunter2" in path.read_text() for path in everything if path.is_file())


@pytest.mark.parametrize("torn", ["", "{", '{"kind": "ImagePulledRecord"}', '{"imageRef": 5}'])
def test_a_corrupt_pull_record_is_verified_again_and_replaced(tmp_path: Path, torn: str) -> None:
    first = PullRecords(tmp_path, Verification())
    pull(first, None)
    [path] = (tmp_path / "image_manager" / "pulled").iterdir()
    path.write_text(torn)
    records = PullRecords(tmp_path, Verification("NeverVerify"))
    assert not records.may_use(IMAGE, REF, ())
    pull(records, None)
    assert records.may_use(IMAGE, REF, ())
    assert len(pulled_images(tmp_path)) == 1


def test_a_draft_left_by_a_crash_is_ignored(records: PullRecords, tmp_path: Path) -> None:
    pull(records, None)
    [path] = (tmp_path / "image_manager" / "pulled").iterdir()
    path.with_name(path.name + ".tmp").write_text("{")
    assert len(pulled_images(tmp_path)) == 1
    assert PullRecords(tmp_path, Verification()).may_use(IMAGE, REF, ())


def test_a_pull_counts_even_if_its_record_cannot_be_written(records: PullRecords, tmp_path: Path) -> None:
    records.intend(IMAGE)
    (tmp_path / "image_manager" / "pulled").write_text("no directory")
    records.pulled(IMAGE, REF, secret())
    assert records.may_use(IMAGE, REF, [secret()])
    assert [intent["image"] for intent in files(tmp_path, "pulling")] == [IMAGE]


def test_repeated_verification_does_not_grow_a_record_without_bound(records: PullRecords, tmp_path: Path) -> None:
    pull(records, secret())
    for number in range(SECRETS_KEPT + 10):
        assert records.may_use(IMAGE, REF, [secret(f"copy-{number}", f"copy-{number}")])
    [record] = pulled_images(tmp_path)
    assert len(record.credential_mapping["registry.example.com/team/app"].kubernetes_secrets) == SECRETS_KEPT


def test_records_of_removed_images_are_dropped_but_not_those_of_new_ones(records: PullRecords, tmp_path: Path) -> None:
    pull(records, None, ref="sha256:gone")
    pull(records, None, ref="sha256:there")
    began = datetime.now(UTC)
    pull(records, None, ref="sha256:new")
    records.prune({"sha256:there"}, before=began)
    assert {record.image_ref for record in pulled_images(tmp_path)} == {"sha256:there", "sha256:new"}
    records.prune((), before=began + timedelta(days=1))
    assert pulled_images(tmp_path) == ()


# --- policies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "allowed", "image", "preloaded", "pulled"),
    [
        ("NeverVerify", (), "app", False, False),
        ("NeverVerifyPreloadedImages", (), "app", False, True),
        ("AlwaysVerify", (), "app", True, True),
        ("NeverVerifyAllowlistedImages", (), "app", True, True),
        ("NeverVerifyAllowlistedImages", ("app",), "app:1", False, False),
        ("NeverVerifyAllowlistedImages", ("app",), "docker.io/library/app", True, True),
        ("NeverVerifyAllowlistedImages", ("quay.io/team/*",), f"quay.io/team/app@{DIGEST}", False, False),
        ("NeverVerifyAllowlistedImages", ("quay.io/team/*",), "quay.io/teams/app", True, True),
    ],
)
def test_the_verification_policy_decides_which_images_are_verified(
    policy: str, allowed: tuple[str, ...], image: str, preloaded: bool, pulled: bool
) -> None:
    verification = Verification(policy, allowed)
    assert verification.is_needed(image, pulled_by_us=False) == preloaded
    assert verification.is_needed(image, pulled_by_us=True) == pulled


@pytest.mark.parametrize(
    ("policy", "allowed", "why"),
    [
        (
            "Sometimes",
            (),
            "'Sometimes': must be NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages "
            "or AlwaysVerify",
        ),
        (
            "NeverVerify",
            ("app",),
            "a list of images goes with NeverVerifyAllowlistedImages only, not NeverVerify",
        ),
        *(
            (
                "NeverVerifyAllowlistedImages",
                (pattern,),
                f"{pattern!r}: must be an image's name without tag and digest, or the beginning of one with /* "
                "after it",
            )
            for pattern in ("", "/*", "*", "quay.io/*/app", "quay.io*", "app:1", f"app@{DIGEST}", " app", "App")
        ),
    ],
)
def test_an_unknown_verification_policy_is_refused(policy: str, allowed: tuple[str, ...], why: str) -> None:
    with pytest.raises(VerificationInvalid) as caught:
        Verification(policy, allowed)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("app", "app"),
        ("app:latest", "app"),
        ("localhost:5000/app", "localhost:5000/app"),
        ("localhost:5000/app:1", "localhost:5000/app"),
        (f"app@{DIGEST}", "app"),
        (f"app:1@{DIGEST}", "app"),
        ("no name", "no name"),
    ],
)
def test_the_repository_of_an_image_name_is_cut_without_normalisation(image: str, name: str) -> None:
    assert without_tag_and_digest(image) == name
