"""Patterns in a container's ends are named; coincidences are not."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.journal.causes import End, ends_of
from syncpod.journal.patterns import patterns
from tests.journal.records import at, ended, event, otherwise


def found(ends: Sequence[End], *changed: datetime) -> list[str]:
    return patterns(
        ends, changed=changed, span=lambda span: f"{span.total_seconds():g}s", clock=lambda when: f"{when:%H:%M}"
    )


def ends(*spans: tuple[float, float], memory: str = "", **more: Any) -> list[End]:
    """Ends of instances, each with the seconds of its start and its end."""
    instances = [ended(number, begun=begun, end=end, **more) for number, (begun, end) in enumerate(spans)]
    return ends_of(instances, [], [event(0, container="app")], {"app": memory}).get("app", [])


def test_two_ends_that_are_alike_are_said_to_be_and_make_no_other_pattern() -> None:
    assert found(ends((0, 1), (2, 3))) == ["always the same, both times: exited 3"]


def test_two_ends_with_one_last_line_share_it() -> None:
    said = found(ends((0, 1), (2, 3), log_end="a\ncannot reach db\n"))
    assert said[1:] == ['its log always ends with "cannot reach db", both times']
    instances = [ended(0, begun=0, end=1, exit_code=1), ended(1, begun=2, end=3)]
    assert found(ends_of(instances, [], [])["app"]) == []
    logs = [ended(each, begun=2 * each, end=2 * each + 1, log_end="x" if each else "") for each in range(3)]
    assert not any("its log" in each for each in found(ends_of(logs, [], [])["app"])), "the third one logged nothing"


def test_a_regular_interval_and_run_time_are_named() -> None:
    said = found(ends(*((each * 360, each * 360 + 355) for each in range(5))))
    assert said == ["always the same: exited 3", "it runs for 355s each time", "it ends about every 360s"]


def test_a_growing_back_off_is_no_regular_interval_until_it_is_longest() -> None:
    begun = [0, 2, 13, 34, 75, 156]
    assert found(ends(*((each, each + 1) for each in begun)))[1:] == ["it runs for 1s each time"]
    longest = [*begun, *(317 + 301 * more for more in range(6))]
    assert found(ends(*((each, each + 1) for each in longest)))[2:] == ["its last 5 ends came about every 301s"]


def test_lack_of_memory_is_named_with_its_limit_even_once() -> None:
    oom: dict[str, Any] = {"exit_code": 137, "reason": "OOMKilled"}
    assert found(ends((0, 1), memory="64Mi", **oom)) == ["out of memory once, at the limit of 64Mi"]
    child: dict[str, Any] = {"exit_code": 3, "reason": "OOMKilled"}
    assert found(ends((0, 1), memory="64Mi", **child)) == ["out of memory once, at the limit of 64Mi"]
    assert "out of memory 3 times, though the container has no limit" in found(ends((0, 1), (9, 30), (99, 180), **oom))


def test_the_change_after_which_it_began_is_named() -> None:
    update = ended(
        0, begun=0, end=7200, cause="Container app definition changed, will be restarted", killed_by="update"
    )
    crashes = [ended(each, begun=7200 + each * each, end=7201 + each * each) for each in (1, 2, 3)]
    all_ends = ends_of([update, *crashes], [], [])["app"]
    assert "since the change of 14:00: 3 ends, none before" in found(all_ends, at(0), at(7200))
    assert not any("since the change" in each for each in found(all_ends[1:], at(7300)))


def test_the_same_last_line_of_the_log_is_named() -> None:
    said = found(ends((0, 1), (10, 30), (99, 120), log_end="starting\ncannot reach db\n"))
    assert 'its log always ends with "cannot reach db"' in said


def test_of_a_last_line_without_end_only_its_end_is_shown() -> None:
    said = found(ends((0, 1), (10, 30), (99, 120), log_end=f"{'x' * 1000} no space left"))
    (line,) = (each for each in said if each.startswith("its log always ends with"))
    assert len(line) < 140 and line.endswith(' no space left"') and '"…x' in line


def test_the_log_that_ends_otherwise_than_most_is_named() -> None:
    spans = [(each**3 * 10.0, each**3 * 10.0 + each) for each in range(6)]
    instances = [
        ended(at_, begun=begun, end=end, log_end="quota exceeded\n" if at_ == 3 else "upstream closed\n")
        for at_, (begun, end) in enumerate(spans)
    ]
    said = found(ends_of(instances, [], [])["app"])
    assert 'its log mostly ends with "upstream closed", that of restart 3 with "quota exceeded"' in said
    assert not any("its log" in each for each in found(ends_of(instances[:4], [], [])["app"])), "3 of 4 are not most"


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ((3, 3, 3, 3, 1), "mostly the same, 4 of 5 times: exited 3"),
        ((1, 3, 3, 3), "the same for the last 3 times: exited 3"),
        ((1, 2, 3), ""),
    ],
)
def test_causes_that_prevail_are_named(codes: tuple[int, ...], said: str) -> None:
    instances = [
        ended(at_, begun=at_**3 * 10, end=at_**3 * 10 + at_ * 2, exit_code=code) for at_, code in enumerate(codes)
    ]
    named = found(ends_of(instances, [], [])["app"])
    assert named == ([said] if said else [])


def test_ends_that_said_different_things_are_the_same_without_what_they_said() -> None:
    same = [ended(each, begun=each**3 * 10, end=each**3 * 10 + each * 2, message="no config") for each in range(3)]
    assert found(ends_of(same, [], [])["app"]) == ["always the same: exited 3: no config"]
    other = [*same[:2], otherwise(same[2], message="no disk")]
    assert found(ends_of(other, [], [])["app"]) == ["always the same: exited 3"]


def test_ends_that_were_asked_for_are_said_to_be_left_out() -> None:
    crashes = [ended(each, begun=each**3 * 10, end=each**3 * 10 + each * 2) for each in (0, 1, 3)]
    update = ended(2, begun=80, end=83, cause="Container app definition changed, will be restarted", killed_by="update")
    all_ends = ends_of([*crashes, update], [], [])["app"]
    assert found(all_ends) == ["always the same: exited 3 (without the 1 that was asked for)"]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6),
            st.floats(0, 1e6),
            st.sampled_from([0, 1, 3, 137, 255]),
            st.text(max_size=5),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.lists(st.floats(0, 1e6), max_size=3),
)
def test_any_ends_have_patterns_without_error(
    spans: list[tuple[float, float, int, str, bool]], changed: list[float]
) -> None:
    instances = [
        ended(number, begun=begun, end=end, exit_code=code, log_end=log, **({"started_at": None} if lost else {}))
        if not lost
        else ended(number, exit_code=code, reason="ContainerStatusUnknown")
        for number, (begun, end, code, log, lost) in enumerate(spans)
    ]
    said = found(ends_of(instances, [], []).get("app", []), *map(at, changed))
    assert all(said)
