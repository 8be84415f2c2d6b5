"""Scripts of simulated containers: the syntax, and the error messages."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.runtime.simulation.script import (
    ContainerScript,
    ExecScript,
    FailureRate,
    Hang,
    ScriptInvalid,
    check_scripts,
    container_script,
    duration,
    pod_script,
)

WEB = "simulate.syncpod.dev/web"
POD = "simulate.syncpod.dev/pod"
SECOND = 10**9


def web(**script: Any) -> ContainerScript:
    return container_script({WEB: json.dumps(script)}, "web")


def test_without_a_script_a_container_starts_at_once_and_runs_until_it_is_stopped() -> None:
    script = container_script({"other.example/web": "{"}, "web")
    assert (script.start_delay, script.run_time, script.start_error, script.log) == (0, None, "", ())
    assert (script.ignores_signals, script.stop_exit_code) == (False, None)
    assert pod_script({}).run_time is None


def test_every_field_of_a_container_is_read() -> None:
    script = web(
        startDelay="1.5s",
        startError="no such device",
        runTime="1m30s",
        exitCodes=[1, 2, None],
        oomKilled=True,
        stopDelay="2s",
        stopExitCode=0,
        log=["one", "two"],
        memory="64Mi",
        cpu="250m",
        exec={"stdout": "out", "stderr": "err", "exitCode": 3, "delay": "10ms"},
    )
    assert (script.start_delay, script.start_error, script.run_time) == (3 * SECOND // 2, "no such device", 90 * SECOND)
    assert (script.exit_codes, script.oom_killed) == ((1, 2, None), True)
    assert (script.stop_delay, script.stop_exit_code, script.ignores_signals) == (2 * SECOND, 0, False)
    assert (script.log, script.memory, script.cpu) == (("one", "two"), 64 * 2**20, 250)
    assert script.exec == ExecScript("out", "err", 3, SECOND // 100)
    assert web(ignoresSignals=True).ignores_signals


def test_every_field_of_a_sandbox_is_read() -> None:
    script = pod_script({POD: json.dumps({"startDelay": "1s", "runTime": "2s", "restartRuntimeAfter": "3s"})})
    assert (script.start_delay, script.run_time, script.restart_runtime_after) == (SECOND, 2 * SECOND, 3 * SECOND)


@pytest.mark.parametrize(
    ("script", "codes"),
    [
        ({"runTime": "1s"}, (0,)),
        ({"runTime": "1s", "exitCode": 3}, (3,)),
        ({"runTime": "1s", "exitCodes": [1, 0]}, (1, 0)),
        ({"runTime": "1s", "oomKilled": True}, (137,)),
        ({"runTime": "1s", "oomKilled": True, "exitCode": 0}, (0,)),
    ],
)
def test_a_scripted_exit_has_its_given_or_default_code(script: dict[str, Any], codes: tuple[int | None, ...]) -> None:
    assert web(**script).exit_codes == codes


def test_scripted_hangs_may_be_endless_or_timed_and_limited_in_number() -> None:
    assert web(hang=["StopContainer", "ExecSync"]).calls.hang == {
        "StopContainer": Hang(None, None),
        "ExecSync": Hang(None, None),
    }
    assert web(hang={"StopContainer": "5s", "CreateContainer": {"times": 2}}).calls.hang == {
        "StopContainer": Hang(5 * SECOND, None),
        "CreateContainer": Hang(None, 2),
    }


def test_scripted_failures_have_a_rate_a_code_and_a_message() -> None:
    failing = {"CreateContainer": 0.2, "StartContainer": {"times": 1, "code": "UNAVAILABLE", "message": "gone"}}
    assert web(failureRates=failing).calls.failure_rates == {
        "CreateContainer": FailureRate(0.2, None, grpc.StatusCode.UNKNOWN, ""),
        "StartContainer": FailureRate(1.0, 1, grpc.StatusCode.UNAVAILABLE, "gone"),
    }


def test_only_the_first_scripted_crash_call_crashes_unless_more_are_requested() -> None:
    assert web(restartRuntime=["StartContainer"]).calls.restart_runtime == {"StartContainer": 1}
    assert web(restartRuntime={"StartContainer": 2}).calls.restart_runtime == {"StartContainer": 2}


REFUSED: tuple[tuple[str, str, str], ...] = (
    ("web", "[]", ": must be a JSON object"),
    ("web", "{", ': must be a JSON object such as {"runTime": "30s"}: '),
    ("web", "", ': must be a JSON object such as {"runTime": "30s"}: '),
    ("web", '{"runTime": "1s", "runTime": "2s"}', "runTime is given twice"),
    ("web", '{"cpu": NaN}', "NaN is not JSON"),
    ("web", '{"colour": "red"}', ".colour: unknown field; there are cpu, exec, "),
    ("web", '{"restartRuntimeAfter": "1s"}', ".restartRuntimeAfter: unknown field"),
    ("web", '{"runTime": "5"}', ".runTime: must be a duration such as 1m30s"),
    ("web", '{"runTime": 5}', ".runTime: must be a duration such as 1m30s"),
    ("web", '{"runTime": "-5s"}', ".runTime: must be a duration such as 1m30s"),
    ("web", '{"startDelay": "9999999h"}', ".startDelay: must be a duration of at most a hundred years"),
    ("web", '{"exitCode": 1}', ".exitCode: says how it ends by itself, and needs runTime"),
    ("web", '{"oomKilled": true}', ".oomKilled: says how it ends by itself, and needs runTime"),
    ("web", '{"runTime": "1s", "exitCode": 256}', ".exitCode: must be a number from 0 to 255"),
    ("web", '{"runTime": "1s", "exitCode": true}', ".exitCode: must be a number from 0 to 255"),
    ("web", '{"runTime": "1s", "exitCodes": []}', ".exitCodes: must be a list of numbers from 0 to 255"),
    ("web", '{"runTime": "1s", "exitCode": 1, "exitCodes": [1]}', ".exitCodes: must not be given beside exitCode"),
    ("web", '{"ignoresSignals": 1}', ".ignoresSignals: must be true or false"),
    ("web", '{"ignoresSignals": true, "stopDelay": "1s"}', ".stopDelay: says how it ends after a signal"),
    ("web", '{"startError": ""}', ".startError: must be a text, not empty"),
    ("web", '{"log": "line"}', '.log: must be a list of lines such as ["listening"]'),
    ("web", '{"log": ["two\\nlines"]}', ".log: must be a list of lines"),
    ("web", '{"memory": "64MB"}', ".memory: must be a quantity such as 64Mi"),
    ("web", '{"cpu": "-1"}', ".cpu: must be a quantity such as 250m"),
    ("web", '{"exec": "hello"}', ".exec: must be a JSON object"),
    ("web", '{"exec": {"code": 1}}', ".exec.code: unknown field"),
    ("web", '{"hang": "StopContainer"}', ".hang: must name calls, such as"),
    ("web", '{"hang": ["StopPodSandbox"]}', ".hang.StopPodSandbox: unknown field"),
    ("web", '{"hang": [["StopContainer"]]}', ".hang.['StopContainer']: unknown field"),
    ("web", '{"hang": {"StopContainer": 5}}', ".hang.StopContainer: must be a duration"),
    ("web", '{"hang": {"StopContainer": {"times": 0}}}', ".hang.StopContainer.times: must be a number from 1"),
    ("web", '{"failureRates": ["StopContainer"]}', ".failureRates: must name calls, such as"),
    ("web", '{"failureRates": {"StopContainer": 1.5}}', ".failureRates.StopContainer: must be a number from 0"),
    ("web", '{"failureRates": {"StopContainer": {"code": "OK"}}}', ".StopContainer.code: must be one of CANCELLED, "),
    ("web", '{"restartRuntime": {"StopContainer": "1s"}}', ".restartRuntime.StopContainer: must be a number from 1"),
    ("pod", '{"exitCode": 1}', ".exitCode: unknown field; there are failureRates, hang, restartRuntime, "),
    ("pod", '{"hang": ["ListContainers"]}', ".hang.ListContainers: unknown field"),
)


@pytest.mark.parametrize(("name", "script", "sentence"), REFUSED, ids=[f"{name} {text}" for name, text, _ in REFUSED])
def test_an_invalid_script_is_refused_with_its_path(name: str, script: str, sentence: str) -> None:
    with pytest.raises(ScriptInvalid) as refused:
        check_scripts({f"simulate.syncpod.dev/{name}": script, "unrelated": "["})
    assert str(refused.value).startswith(f"metadata.annotations[simulate.syncpod.dev/{name}]")
    assert sentence in str(refused.value)


def test_a_container_called_pod_is_not_scripted_by_the_sandboxs_script() -> None:
    annotations = {POD: json.dumps({"restartRuntimeAfter": "3s"})}
    assert container_script(annotations, "pod") == container_script({}, "pod")


def test_pods_with_the_same_script_share_it() -> None:
    assert web(runTime="7s") is web(runTime="7s")


@given(
    hours=st.integers(0, 1000),
    minutes=st.integers(0, 59),
    milliseconds=st.integers(0, 59_999),
)
def test_script_durations_have_gos_format(hours: int, minutes: int, milliseconds: int) -> None:
    nanoseconds = (hours * 3600 + minutes * 60) * SECOND + milliseconds * 10**6
    assert duration(f"{hours}h{minutes}m{milliseconds / 1000:.3f}s") == nanoseconds
    assert duration(f"{hours}h{minutes}m{milliseconds}ms") == nanoseconds


@pytest.mark.parametrize("text", ["", "5", "s", "1 s", "+1s", "1d", "1s ", "1,5s", "٣s", "1.2.3s"])
def test_invalid_script_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 1m30s"):
        duration(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_FIELDS = st.sampled_from(["runTime", "exitCodes", "hang", "failureRates", "restartRuntime", "exec", "memory", "log"])


@given(name=st.sampled_from(["pod", "web"]), script=st.text() | st.dictionaries(_FIELDS, _JSON).map(json.dumps))
def test_any_script_is_parsed_or_refused_in_one_sentence(name: str, script: str) -> None:
    annotations = {f"simulate.syncpod.dev/{name}": script}
    try:
        check_scripts(annotations)
    except ScriptInvalid as refused:
        assert str(refused).startswith(f"metadata.annotations[simulate.syncpod.dev/{name}]")
