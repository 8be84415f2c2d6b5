"""Tasks for several items run in parallel, and their failures are combined."""

from __future__ import annotations

import asyncio
import gc

import pytest

from syncpod.cli.failure import BadInput, Failure, together
from syncpod.cli.several import do_all


@pytest.mark.parametrize(
    ("failures", "done", "code"),
    [
        ((BadInput("a"), BadInput("b")), False, 2),
        ((BadInput("a"), BadInput("b")), True, 1),
        ((BadInput("a"), Failure("b")), False, 1),
        ((Failure("a"), Failure("b")), True, 1),
    ],
)
def test_several_failures_are_bad_input_only_if_nothing_was_done(
    failures: tuple[Failure, ...], done: bool, code: int
) -> None:
    both = together(failures, done=done)
    assert (str(both), both.code) == ("a\nb", code)


async def test_a_few_tasks_run_at_once_and_one_failure_does_not_stop_the_others() -> None:
    under_way, most, done = 0, 0, []

    async def deed(number: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        if number in (1, 4):
            raise BadInput(f"no {number}")
        done.append(number)

    with pytest.raises(Failure) as failed:
        await do_all([deed(number) for number in range(9)], at_once=3)
    assert (str(failed.value), failed.value.code) == ("no 1\nno 4", 1)
    assert (sorted(done), most) == ([0, 2, 3, 5, 6, 7, 8], 3)


async def test_an_unexpected_error_is_raised_unchanged() -> None:
    async def deed() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await do_all([deed()], at_once=1)


async def test_tasks_not_begun_at_cancellation_are_dropped(recwarn: pytest.WarningsRecorder) -> None:
    begun = asyncio.Event()

    async def deed() -> None:
        begun.set()
        await asyncio.sleep(60)

    all_of_it = asyncio.create_task(do_all([deed(), deed()], at_once=1))
    await begun.wait()
    all_of_it.cancel()
    await asyncio.wait({all_of_it})
    assert all_of_it.cancelled()
    del all_of_it
    gc.collect()
    # Coroutines that earlier tests have left behind may be collected meanwhile, and are not of this test.
    warned = [str(each.message) for each in recwarn]
    assert [each for each in warned if "never awaited" in each and f"{deed.__qualname__}'" in each] == []


async def test_tasks_are_dropped_if_cancellation_comes_before_the_first_begins(
    recwarn: pytest.WarningsRecorder,
) -> None:
    async def deed() -> None:
        raise AssertionError("it does not begin")

    all_of_it = asyncio.create_task(do_all([deed(), deed()], at_once=1))
    await asyncio.sleep(0)  # now it waits for what it has begun, and none of that has had its turn
    all_of_it.cancel()
    await asyncio.wait({all_of_it})
    assert all_of_it.cancelled()
    del all_of_it
    gc.collect()
    warned = [str(each.message) for each in recwarn]
    assert [each for each in warned if "never awaited" in each and f"{deed.__qualname__}'" in each] == []
