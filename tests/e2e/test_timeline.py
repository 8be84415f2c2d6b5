"""The Temporal UI tells a pod's story: each step with its reason, each back-off as a bar.

`SYNCPOD_PICTURES=docs` makes this take the README's pictures.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page, Route, async_playwright, expect

from syncpod.cli.view.ui_pages import not_ready_page
from tests.e2e.engine import EngineNode, LivePod, Pods, shell, status_of
from tests.runtimes.selection import ALL, asked_for

STORY = (
    "create_sandbox • create sandbox: first sandbox",
    "start_init_container • start migrate: first start",
    "start_init_container • start proxy: first start",
    "start_container • start web: first start",
    "start_container • start web, restart 1: exited 1 (Error)",
    "web exited 1 after Ns; restart 2 in 10s",
    "backoff_expired",
    "start_container • start web, restart 2: exited 1 (Error)",
)
"""What a reader of the page sees, from top to bottom."""


PICTURES = os.environ.get("SYNCPOD_PICTURES")
LOOKS = pytest.mark.skipif(
    asked_for() != ALL and not PICTURES, reason="pages are looked at where all tests are asked for"
)
EMBEDDED = pytest.mark.parametrize("runtime", ["embedded"], indirect=True, scope="session")
"""What a page is drawn from is the same on each runtime."""
PATIENCE = 300_000
"""Milliseconds for which a page is waited for: what is asserted is what comes, and never how soon."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def web(engine: EngineNode) -> AsyncIterator[LivePod]:
    """A pod with an init container, a sidecar and a container that crashes twice before it stays."""
    async with engine.pods() as pods:
        yield await storied_pod(pods)


async def test_the_history_has_each_step_with_its_reason(web: LivePod) -> None:
    assert [timeless(text) async for text in told_by(web) if text not in ("apply", "pleg")] == list(STORY)


def timeless(text: str) -> str:
    """What is told, without how long the machine took for it."""
    return re.sub(r"after \d+s", "after Ns", text)


@LOOKS
@EMBEDDED
async def test_the_timeline_shows_each_step_with_its_reason(web: LivePod, chromium: Path, tmp_path: Path) -> None:
    async with looking(chromium, height=1140) as page:
        await show(page, await timeline_of(web), page.get_by_text("Descending"))
        await page.get_by_text("Descending").click()
        rows = page.get_by_role("listitem").filter(has=page.get_by_role("button", name="Event "))
        await expect(rows.filter(has_text=STORY[-1])).to_be_attached(timeout=PATIENCE)
        told = [timeless(" ".join((text or "").split())) for text in await rows.all_text_contents()]
        assert [text for text in told if text not in ("apply", "pleg")] == list(STORY)

        await take_picture(page, tmp_path, "timeline.png")


@LOOKS
@EMBEDDED
async def test_the_list_shows_what_is_not_ready_as_get_pods_does(
    engine: EngineNode, web: LivePod, chromium: Path, tmp_path: Path
) -> None:
    """At the address that `up` prints; a browser keeps the columns that were once added to its list."""
    server = web.node.server
    columns = [{"label": label, "pinned": False} for label in ("Workflow ID", "PodStatus", "PodRestarts", "PodReady")]
    kept = json.dumps(json.dumps({server.namespace: columns}))
    refuses = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    async with engine.pods() as pods, looking(chromium, height=560) as page:
        broken = await named(pods, "broken", shell("app", "exit 3"))
        unready = await named(pods, "unready", shell("app", readinessProbe=refuses))
        starts = await named(pods, "starts", shell("app"), initContainers=[shell("migrate")])
        await broken.until(lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] >= 2)
        await broken.until(lambda pod: "CrashLoopBackOff" in str(status_of(pod, "app").get("state")))
        await unready.until(lambda pod: "running" in status_of(pod, "app").get("state", {}))
        await page.add_init_script(f"localStorage.setItem('namespace-workflow-table-columns', {kept})")
        await show(page, not_ready_page(server.ui, server.namespace), page.get_by_text("PodRestarts"))
        shown = ((broken, "CrashLoopBackOff"), (unready, "Running"), (starts, "Init:0/1"))
        for pod, status in shown:
            row = page.get_by_role("row").filter(has_text=pod.handle.id)
            await expect(row).to_contain_text(status, timeout=PATIENCE)
            cells = [" ".join(text.split()) for text in await row.get_by_role("cell").all_text_contents()]
            told = [each for each in cells if each][-3:]
            assert (told[0], told[2].lower()) == (status, "false")
            assert (int(told[1]) >= 1) == (pod is broken)
        assert await page.get_by_role("row").filter(has_text=web.handle.id).count() == 0, "it is ready"
        await take_picture(page, tmp_path, "not-ready.png")


@contextlib.asynccontextmanager
async def looking(chromium: Path, *, height: int) -> AsyncIterator[Page]:
    """A page of a browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1400, "height": height}, color_scheme="light")
        yield page
        await page.unroute_all(behavior="ignoreErrors")
        await browser.close()


async def take_picture(page: Page, directory: Path, name: str) -> None:
    """Take the README's picture of this name, else one that nobody keeps; assert that something is drawn on it."""
    await page.wait_for_timeout(1_000)  # bars are drawn in a short animation
    assert 20_000 < len(await page.screenshot(path=Path(PICTURES or directory) / name)) < 400_000


async def named(pods: Pods, name: str, *containers: dict[str, Any], **more: Any) -> LivePod:
    """Apply a pod of exactly this name, as a person would have named it."""
    annotations = more.pop("annotations", {})
    document = pods.manifest(name, *containers, **more)
    document["metadata"] |= {"name": name, "annotations": annotations}
    pod = pods.know(document)
    await pod.apply(document)
    return pod


async def told_by(pod: LivePod) -> AsyncIterator[str]:
    """What the timeline is drawn from: activities, timers and signals, with their summaries, in order."""
    async for event in pod.handle.fetch_history_events():
        summary = json.loads(event.user_metadata.summary.data or '""')
        if event.HasField("activity_task_scheduled_event_attributes"):
            yield f"{event.activity_task_scheduled_event_attributes.activity_type.name} • {summary}"
        elif event.HasField("timer_started_event_attributes"):
            yield summary
        elif event.HasField("workflow_execution_signaled_event_attributes"):
            yield event.workflow_execution_signaled_event_attributes.signal_name


async def show(page: Page, address: str, sign: Locator) -> None:
    """Load the page until it shows a sign of its own, with everything fetched outside of Chromium.

    Chromium itself drops what it is loading whenever the machine gets or loses a network interface, as with every pod.
    """

    async def fetch(route: Route) -> None:
        with contextlib.suppress(PlaywrightError):  # the page waits for news of the run, until it is closed
            await route.fulfill(response=await route.fetch())

    await page.route("**/*", fetch)
    await page.goto(address, timeout=PATIENCE)
    await expect(sign).to_be_visible(timeout=PATIENCE)


async def storied_pod(pods: Pods) -> LivePod:
    """Apply it and wait until it stays; for a picture its back-off has its ten seconds, else an operator ends it."""
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    crash = 'echo x >> /scratch/runs; [ "$(wc -l < /scratch/runs)" -gt 2 ] || { sleep 1; exit 1; }; exec sleep 1000'
    pod = await named(
        pods,
        "web",
        shell("web", crash, volumeMounts=mounts),
        initContainers=[shell("migrate", "sleep 1"), shell("proxy", restartPolicy="Always")],
        volumes=[{"name": "scratch", "emptyDir": {}}],
    )
    if not PICTURES:
        await pod.until(lambda pod: "CrashLoopBackOff" in str(status_of(pod, "web").get("state")))
        await pod.handle.signal("backoff_expired", {"container": "web"})
    await pod.running(web=2)
    return pod


async def timeline_of(pod: LivePod) -> str:
    """The address of its page."""
    server = pod.node.server
    run = (await pod.handle.describe()).run_id
    return f"{server.ui}/namespaces/{server.namespace}/workflows/{quote(pod.handle.id, safe='')}/{run}/timeline"
