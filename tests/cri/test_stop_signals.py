"""Row 56: stop signals by core/v1's names and CRI's numbers."""

from __future__ import annotations

import json

import pytest

from protos.cri.v1 import api_pb2
from protos.cri.v1.api_pb2 import Signal
from syncpod.cri import records
from syncpod.cri.records import stop_signal_name, stop_signal_number
from syncpod.pod.validation.probes import _SIGNALS


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("SIGUSR1", Signal.SIGNAL_SIGUSR1),
        ("SIGRTMIN", Signal.SIGNAL_SIGRTMIN),
        ("SIGRTMIN+15", Signal.SIGNAL_SIGRTMINPLUS15),
        ("SIGRTMAX-14", Signal.SIGNAL_SIGRTMAXMINUS14),
    ],
)
def test_each_signal_name_has_its_cri_number(name: str, number: int) -> None:
    assert stop_signal_number(name) == number
    assert stop_signal_name(number) == name


def test_core_v1_signal_names_and_cri_numbers_map_one_to_one() -> None:
    assert {stop_signal_name(stop_signal_number(name)) for name in _SIGNALS} == _SIGNALS
    assert {stop_signal_name(number) for number in Signal.values()} == _SIGNALS | {""}


NOTED = "org.opencontainers.image.stopSignal"


@pytest.mark.parametrize(
    ("said", "noted", "name"),
    [
        (Signal.SIGNAL_SIGUSR2, {NOTED: "SIGUSR1"}, "SIGUSR2"),
        (Signal.SIGNAL_RUNTIME_DEFAULT, {NOTED: "SIGUSR1"}, "SIGUSR1"),
        # What CRI-O 1.34 writes where a pod says SIGRTMIN+3: it stops the container by SIGTERM then.
        (Signal.SIGNAL_RUNTIME_DEFAULT, {NOTED: "SIGRTMINPLUS3"}, ""),
        (Signal.SIGNAL_RUNTIME_DEFAULT, {}, ""),
        (Signal.SIGNAL_RUNTIME_DEFAULT, None, ""),
    ],
)
def test_the_stop_signal_is_read_from_the_status_or_from_the_runtimes_annotation(
    said: Signal, noted: dict[str, str] | None, name: str
) -> None:
    answer = api_pb2.ContainerStatusResponse(status=api_pb2.ContainerStatus(stop_signal=said))
    answer.info["info"] = json.dumps({"pid": 7, "runtimeSpec": {"annotations": noted}})
    assert records.container_status(answer).container.stop_signal == name


def test_an_unset_or_unknown_stop_signal_has_no_name() -> None:
    assert stop_signal_number(None) == Signal.SIGNAL_RUNTIME_DEFAULT
    assert stop_signal_name(4711) == ""
    with pytest.raises(ValueError, match="SIGFOO"):
        stop_signal_number("SIGFOO")
