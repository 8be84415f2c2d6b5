"""A pod's restart annotations: parsed, or refused with their path."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.pod import PodInvalid, admit, readmit
from syncpod.pod.restart_settings import KUBELETS, RestartSettings, check_restart_settings, restart_settings

FULL = {
    "syncpod.dev/backoff-initial": "1s500ms",
    "syncpod.dev/backoff-factor": "1.5",
    "syncpod.dev/backoff-max": "1m0.5s",
    "syncpod.dev/backoff-reset-after": "1h",
    "syncpod.dev/backoff-exempt-exit-codes": "143, 0",
    "syncpod.dev/restart-limit": "20",
    "syncpod.dev/restart-limit-action": "fail",
}


def pod(annotations: dict[str, str]) -> dict[str, Any]:
    spec = {"containers": [{"name": "web", "image": "busybox:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": annotations}, "spec": spec}


def test_restart_annotations_are_read_and_unset_ones_have_the_kubelets_defaults() -> None:
    assert restart_settings(admit(pod(FULL)).pod.metadata.annotations) == RestartSettings(
        initial=timedelta(seconds=1.5),
        factor=1.5,
        maximum=timedelta(seconds=60.5),
        reset_after=timedelta(hours=1),
        exempt=(0, 143),
        limit=20,
        action="fail",
    )
    assert restart_settings({"other": "1"}) == KUBELETS
    assert restart_settings({"syncpod.dev/backoff-max": "5s"}).initial == timedelta(seconds=5), "no wait is longer"


def test_the_nodes_longest_delay_is_that_of_pods_that_set_none() -> None:
    assert restart_settings({}, 0.0) == restart_settings({}, 300.0) == KUBELETS
    found = restart_settings({}, 5.0)
    assert (found.initial, found.maximum) == (timedelta(seconds=5), timedelta(seconds=5))
    assert restart_settings({}, 30.0).initial == KUBELETS.initial
    assert restart_settings({"syncpod.dev/backoff-max": "1m"}, 5.0).maximum == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({"backoff-initial": "10"}, "[syncpod.dev/backoff-initial]: must be a duration such as 10s or 1m30s, is '10'"),
        ({"backoff-initial": ""}, "[syncpod.dev/backoff-initial]: must be a duration such as 10s or 1m30s, is ''"),
        (
            {"backoff-initial": "-1s"},
            "[syncpod.dev/backoff-initial]: must be a duration such as 10s or 1m30s, is '-1s'",
        ),
        ({"backoff-initial": "0s"}, "[syncpod.dev/backoff-initial]: must be between 1s and 24h, is '0s'"),
        ({"backoff-max": "24h1ns"}, "[syncpod.dev/backoff-max]: must be between 1s and 24h, is '24h1ns'"),
        ({"backoff-reset-after": "9s"}, "[syncpod.dev/backoff-reset-after]: must be between 10s and 720h, is '9s'"),
        ({"backoff-factor": "0.5"}, "[syncpod.dev/backoff-factor]: must be a number from 1 to 10, such as 2 or 1.5"),
        ({"backoff-factor": "nan"}, "[syncpod.dev/backoff-factor]: must be a number from 1 to 10, such as 2 or 1.5"),
        ({"backoff-exempt-exit-codes": "0,256"}, "exempt-exit-codes]: must be exit codes from 0 to 255, with commas"),
        ({"backoff-exempt-exit-codes": "0;1"}, "exempt-exit-codes]: must be exit codes from 0 to 255, with commas"),
        ({"restart-limit": "-1"}, "[syncpod.dev/restart-limit]: must be a whole number from 0 to 1000000, is '-1'"),
        ({"restart-limit": "3", "restart-limit-action": "stop"}, "limit-action]: must be hold or fail, is 'stop'"),
        ({"restart-limit-action": "hold"}, "limit-action]: must stand beside syncpod.dev/restart-limit"),
        ({"backoff-initial": "6m"}, "[syncpod.dev/backoff-initial]: must not be such that syncpod.dev/backoff-initial"),
        ({"backoff-initial": "20s", "backoff-reset-after": "10s"}, "backoff-reset-after]: must not be such that"),
        ({"backof-initial": "6m"}, ""),
        ({"backoff-intial": "6m"}, "[syncpod.dev/backoff-intial]: unknown; known are syncpod.dev/backoff-initial, "),
        ({"restart-limits": "6"}, "[syncpod.dev/restart-limits]: unknown; known are syncpod.dev/backoff-initial, "),
    ],
)
def test_an_invalid_restart_annotation_is_refused_by_path(annotations: dict[str, str], problem: str) -> None:
    document = pod({f"syncpod.dev/{name}": value for name, value in annotations.items()})
    if not problem:
        admit(document)  # not a name of ours: an annotation like any other
        return
    with pytest.raises(PodInvalid) as refused:
        admit(document)
    assert "metadata.annotations[syncpod.dev/" in str(refused.value)
    assert problem in str(refused.value)
    taken = readmit(document).pod.metadata.annotations
    assert taken == document["metadata"]["annotations"]
    restart_settings(taken)  # does not raise


@given(st.dictionaries(st.sampled_from(sorted(FULL)), st.text(max_size=12) | st.sampled_from(sorted(FULL.values()))))
def test_any_annotation_is_refused_or_keeps_restarts_paced(annotations: dict[str, str]) -> None:
    problems = list(check_restart_settings(annotations, "metadata.annotations"))
    settings = restart_settings(annotations)
    if not problems:
        assert timedelta(seconds=1) <= settings.initial <= settings.maximum
        assert settings.initial <= settings.reset_after
        assert settings.factor >= 1
