"""The alert rules are valid, fire on test series, and name a command of syncpod."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncpod.cli.command_table import COMMANDS
from tests.runtimes.prometheus import installed

HERE = Path(__file__).parents[2] / "deploy" / "prometheus"
GROUPS: list[dict[str, Any]] = yaml.safe_load((HERE / "rules.yml").read_text())["groups"]
RULES = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}


def test_configuration_and_rules_are_valid() -> None:
    checked = subprocess.run(
        [installed("promtool"), "check", "config", "--lint-fatal", HERE / "prometheus.yml"],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_rule_fires_for_its_series_and_not_for_their_neighbours() -> None:
    tested = subprocess.run(
        [installed("promtool"), "test", "rules", HERE / "rules_test.yml"], capture_output=True, text=True
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_no_rule_is_without_a_test_that_fires_it() -> None:
    tests = yaml.safe_load((HERE / "rules_test.yml").read_text())["tests"]
    fired = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert fired == set(RULES)


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_says_what_is_wrong_and_which_command_tells_more(alert: str) -> None:
    annotations = RULES[alert]["annotations"]
    assert set(annotations) == {"summary", "description"}
    assert RULES[alert]["labels"]["severity"] in ("info", "warning", "critical")
    commands = re.findall(r"`syncpod (\w+)", annotations["description"])
    assert commands or "/readyz`" in annotations["description"]
    assert set(commands) <= set(COMMANDS)
