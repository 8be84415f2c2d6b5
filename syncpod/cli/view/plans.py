"""Prints plans: the steps that an apply or a resize would take, or that are about to be taken for a pod."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from syncpod.api.views.durations import short_duration
from syncpod.api.views.text import columns
from syncpod.cli.console import say

_TITLES: Final = {"create": "would be created", "update": "would be configured", "none": "unchanged"}


def object_of(plan: Mapping[str, Any]) -> str:
    """Return the object of a plan: ``pod/web``."""
    kind = next(kind for kind in ("pod", "configmap", "secret") if kind in plan)
    return f"{kind}/{plan[kind]}"


def print_plans(plans: Sequence[Mapping[str, Any]], output: str = "") -> None:
    """Print plans as text, or as JSON."""
    if output == "json":
        say(json.dumps(plans if len(plans) != 1 else plans[0], indent=4))
        return
    for plan in plans:
        if plan.get("error"):
            say(f"{object_of(plan)}: would be refused")
            continue
        if plan.get("withheld"):
            say(f"{object_of(plan)}: would not be applied, since the whole apply is refused for {plan['withheld']}")
            continue
        say(f"{object_of(plan)}: {_title(plan) if 'pod' in plan else _TITLES[plan['change']]}")
        rows = [
            (f"  {number}.", step["step"], step["container"] or "-", step["why"])
            for number, step in enumerate(plan["steps"], 1)
        ]
        for line in columns(rows):
            say(line)
        for hold in plan["holds"]:
            if hold["until"] is None:
                say(f"  {hold['subject']} waits for `syncpod retry`: {hold['reason']}")
                continue
            say(f"  {hold['subject']} waits for {_left(hold['until'])} more: {hold['reason']}")
        if plan.get("deadline"):
            say(f"  the pod fails in {_left(plan['deadline'])}, when its active deadline has passed")


def _left(until: str) -> str:
    """Return the remaining time until a moment, in words; never negative, although the answer took a moment."""
    return short_duration(max(datetime.fromisoformat(until) - datetime.now(UTC), timedelta()))


def _title(plan: Mapping[str, Any]) -> str:
    """Return the result of a plan in a few words."""
    if plan.get("not_run"):
        return "would be created, but its node would not run it"
    if plan["change"] == "create":
        return "would be created" + (", when the one that is being deleted has gone" if "images" in plan else "")
    images = [f"{one['container']} {one['from']} -> {one['to']}" for one in plan.get("images", ())]
    if images:
        return f"would be configured ({', '.join(images)})" + ("" if plan["steps"] else ", no step")
    if plan.get("resources"):
        return "would be resized"
    if plan.get("metadata") and not plan["spec"] and not plan["steps"]:
        return "would be configured (metadata only), no step"
    if plan["change"] == "update":
        return "would be configured" + ("" if plan["steps"] else ", no step")
    return "unchanged" + ("" if plan["steps"] else ", nothing to do")
