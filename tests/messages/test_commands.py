"""Each command is carried out once, in whatever order commands arrive, and none from before its workflow began.

Holds: Only users who can read the key in the state directory can command a signed node.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.messages.pod_commands import POD_COMMANDS
from syncpod.messages.signed import ANY, IN_TIME, REMEMBERED, Accepted, Commands, FleetCommands, Received, microseconds

NUMBERS = st.lists(st.integers(min_value=1, max_value=4 * REMEMBERED), max_size=3 * REMEMBERED)


def accept(numbers: list[int], floor: int = 0) -> tuple[Accepted, list[int]]:
    known, carried_out = Accepted(floor=floor), []
    for number in numbers:
        if not known.refusal(number):
            known = known.adding(number)
            carried_out.append(number)
        assert len(known.numbers) <= REMEMBERED
    assert list(known.numbers) == sorted(set(known.numbers))
    return known, carried_out


@given(NUMBERS, st.integers(min_value=0, max_value=REMEMBERED))
def test_no_command_is_carried_out_twice_nor_one_from_before(numbers: list[int], floor: int) -> None:
    _, carried_out = accept(numbers, floor)
    assert len(carried_out) == len(set(carried_out))
    assert all(number > floor for number in carried_out)


@given(st.sets(st.integers(min_value=1), max_size=2 * REMEMBERED))
def test_commands_in_order_are_all_carried_out(numbers: set[int]) -> None:
    assert accept(sorted(numbers))[1] == sorted(numbers)


@given(st.lists(st.integers(min_value=1), unique=True, max_size=REMEMBERED))
def test_as_many_as_are_remembered_may_overtake_one_another(numbers: list[int]) -> None:
    assert accept(numbers)[1] == numbers


def test_the_snapshot_keeps_it() -> None:
    known, _ = accept([5, 3, 9])
    assert Accepted.model_validate_json(known.model_dump_json()) == known


def test_a_run_whose_start_was_signed_takes_nothing_else() -> None:
    run, none = Commands(Received({"pod": {}}, "start", 7)), Accepted(floor=7)
    assert (run.refusal, run.signed, run.number, run.input) == ("", True, 7, {"pod": {}})
    purpose = "signal/delete_pod"
    known, refusal = run.checked(none, purpose, [Received({}, purpose, 9)])
    assert (known.numbers, refusal) == ((9,), "")
    for args, why in (
        ([Received({}, purpose, 9)], "a copy"),
        ([Received({}, purpose, 7)], "older"),
        ([Received({}, "signal/renew", 10)], "signed as signal/renew"),
        ([Received({}, refusal="it is not signed")], "it is not signed"),
        ([Received({}, purpose, 0)], "no number"),
        ([{}], "it is not signed"),
        ([], "no payload"),
        ([Received({}, purpose, 11), Received({}, purpose, 11)], "a copy"),
    ):
        after, refusal = run.checked(known, purpose, args)
        assert after is known
        assert why in refusal
        assert refusal.startswith("signal delete_pod is refused")
    assert run.checked(known, purpose, [Received({}, ANY, 12)])[1] == ""


def test_only_a_command_that_is_merely_too_old_would_be_accepted_if_it_was_signed_again() -> None:
    run, known, purpose = Commands(Received({}, "start", 7)), Accepted(floor=7, numbers=(9,)), "update/apply"
    old = Received({}, purpose, 5)
    assert run.is_overtaken(known, purpose, [old])
    for args in (
        [Received({}, purpose, 9)],
        [Received({}, "update/delete", 5)],
        [Received({}, purpose, 5, refusal="it is not signed")],
        [old, {}],
        [],
    ):
        assert not run.is_overtaken(known, purpose, args)


def test_a_run_whose_start_was_plain_takes_plain_json() -> None:
    run = Commands({"pod": {}})
    assert (run.signed, run.refusal, run.input) == (False, "", {"pod": {}})
    assert run.checked(Accepted(), "signal/delete_pod", [{}]) == (Accepted(), "")


def test_a_start_that_is_not_signed_is_refused() -> None:
    for start in (
        Received({}, refusal="it is not signed"),
        Received({}, "signal/update_pod", 3),
        Received({}, "start"),
    ):
        assert Commands(start).refusal.startswith("the start is refused, since it")


BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("early", "why"),
    [
        (timedelta(), ""),
        (IN_TIME, ""),
        (-IN_TIME, ""),
        (IN_TIME + timedelta(seconds=1), "it was signed 301 s before the server began the run"),
        (-IN_TIME - timedelta(seconds=1), "it was signed 301 s after the server began the run"),
    ],
)
def test_a_start_of_a_fleet_is_good_at_its_time(early: timedelta, why: str) -> None:
    start = Received({}, "start", microseconds(BEGAN - early))
    refusal = FleetCommands(start, BEGAN).refusal
    assert (why in refusal) if why else not refusal


def test_what_a_fleets_run_goes_on_with_is_good_for_the_next_run_of_that_one_alone() -> None:
    for purpose, continued, why in (
        ("start/one", "one", ""),
        ("start/one", "other", "the start is refused, since it was signed as start/one"),
        ("start/one", "", "the start is refused, since it was signed as start/one"),
        ("start", "one", "the start is refused, since it was signed as start"),
    ):
        refusal = FleetCommands(Received({}, purpose, microseconds(BEGAN)), BEGAN, continued).refusal
        assert refusal.startswith(why) if why else not refusal


def test_a_command_without_a_payload_is_told_which_one_it_takes() -> None:
    run = Commands(Received({}, "start", 1))
    for update, wanted in (
        ("apply", "(a v1 Pod as JSON, such as by `--input-file FILE`, is one)"),
        ("add_ephemeral_container", "(a v1 EphemeralContainer as JSON, such as by `--input-file FILE`, is one)"),
        ("delete", "(`--input '{}'` is one)"),
        ("resize", """(`--input '{"containers": [{"name": "web", "resources": {}}], "initContainers": [],"""),
    ):
        _, refusal = run.checked(Accepted(), f"update/{update}", [], POD_COMMANDS.updates[update].example)
        assert f"update {update} is refused, since it has no payload that could be signed {wanted}" in refusal


def test_a_fleets_refusals_name_the_fleets_keys() -> None:
    run = FleetCommands(Received({}, refusal="it is not signed"), BEGAN)
    assert run.refusal.endswith(
        "since it is not signed: a fleet's commands must be signed with the keys in its directory, by `syncpod --fleet`"
    )
    assert not FleetCommands({}, BEGAN).refusal_of("signal/renew", [{}]), "a fleet that does not sign refuses nothing"
    for args, why in (
        ([], "it has no payload that could be signed (`--input '{}'` is one)"),
        ([{}], "it is not signed"),
        ([Received({}, "signal/other", 7)], "it was signed as signal/other"),
    ):
        assert f"signal renew is refused, since {why}: a fleet" in run.refusal_of("signal/renew", args)
    assert not run.refusal_of("signal/renew", [Received({}, "signal/renew", 7)])
