"""The display of `up` and `apply --wait` while pods start: within the terminal's height, pending pods first."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from syncpod.cli.fetched import FetchedPod
from syncpod.cli.machine.kept_logs import last_words
from syncpod.cli.view.progress import Progress, fitting, hindrances
from syncpod.pod import Pod
from tests.cli.pods import pod, running, waiting

REASONS = [f"pod/p-{number}: it cannot be" for number in range(6)]


def fetched(name: str, one: Pod) -> FetchedPod:
    wire = one.model_dump(by_alias=True, exclude_none=True, mode="json")
    wire["metadata"]["name"] = name
    return FetchedPod(Pod.model_validate(wire), wire, current=True)


def drawn(pods: list[FetchedPod], *, height: int) -> list[str]:
    """The final output to a terminal of this height, without colours."""
    sent = io.StringIO()
    console = Console(file=sent, force_terminal=True, color_system=None, width=60, height=height)
    with Progress(console) as progress:
        progress.show(pods)
        lines = sent.getvalue().split("\r")[-1].splitlines()
    return [line.rstrip() for line in lines]


def test_of_a_crowd_the_pods_that_are_waited_for_are_drawn_and_the_others_counted() -> None:
    crowd = [fetched(f"good-{number}", pod(running())) for number in range(100)]
    hung = {**waiting(), "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    late = [fetched(f"late-{number}", pod(hung)) for number in (1, 2)]
    lines = drawn([*crowd, *late], height=12)
    assert len(lines) <= 12
    assert [line for line in lines if line.startswith("late")] != []
    assert any(line.startswith("… ") and line.endswith(" Running") for line in lines), lines
    assert any(line.startswith("pod/late-1: ErrImagePull") for line in lines), lines


def test_a_pod_that_crashes_is_shown_with_the_last_line_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNCPOD_LOG_DIR", str(tmp_path))
    back_off = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    one = fetched("web", pod({**waiting(), "state": back_off, "restartCount": 1}))
    meta = one.pod.metadata
    log = tmp_path / f"{meta.namespace}_{meta.name}_{meta.uid}" / "app" / "1.log"
    assert hindrances([one], last_words) == ["pod/web: CrashLoopBackOff: container app: back-off 10s"], (
        "there is no log"
    )
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"2026-11-23T12:00:00.000000001Z stderr F {line}\n" for line in ("a", "Address in use")))
    (said,) = hindrances([one], last_words)
    assert said.endswith('container app: back-off 10s; the log of app ends with "Address in use"')


def test_all_that_fits_is_shown() -> None:
    assert fitting(REASONS, 10, width=80, height=18) == (REASONS, 10)


def test_reasons_leave_two_thirds_of_the_lines_to_the_pods() -> None:
    shown, room = fitting(REASONS, 100, width=80, height=14)
    assert (shown, room) == ([*REASONS[:3], "… and 3 more; `syncpod explain POD` says why"], 8)


def test_a_long_reason_takes_as_many_lines_as_it_has() -> None:
    told = fitting(["as long as it is", *REASONS], 100, width=8, height=17)
    assert told == (["as long as it is", "… and 6 more; `syncpod explain POD` says why"], 12)


@pytest.mark.parametrize("height", [0, 1, 2, 5])
def test_a_terminal_without_room_is_not_overfull(height: int) -> None:
    shown, room = fitting(REASONS, 100, width=80, height=height)
    assert len(shown) <= 1 and room <= max(0, height - 2)
