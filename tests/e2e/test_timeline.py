"""The Temporal UI tells a pod's story: each step with its reason, each back-off as a bar.

`SYNCPOD_PICTURE=docs/timeline.png` makes this take the README's picture.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
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


PICTURE = os.environ.get("SYNCPOD_PICTURE")


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


@pytest.mark.skipif(asked_for() != ALL and not PICTURE, reason="the page is looked at where all tests are asked for")
@pytest.mark.parametrize("runtime", ["embedded"], indirect=True, scope="session")
async def test_the_timeline_shows_each_step_with_its_reason(web: LivePod, chromium: Path, tmp_path: Path) -> None:
    """Look at one page: what it is drawn from is the same on each runtime."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1400, "height": 1140}, color_scheme="light")
        await show(page, await timeline_of(web), page.get_by_text("Descending"))
        await page.get_by_text("Descending").click()
        rows = page.get_by_role("listitem").filter(has=page.get_by_role("button", name="Event "))
        await expect(rows.filter(has_text=STORY[-1])).to_be_attached(timeout=60_000)
        told = [timeless(" ".join((text or "").split())) for text in await rows.all_text_contents()]
        assert [text for text in told if text not in ("apply", "pleg")] == list(STORY)

        await page.wait_for_timeout(1_000)  # bars are drawn in a short animation
        picture = Path(PICTURE or tmp_path / "timeline.png")
        assert 20_000 < len(await page.screenshot(path=picture)) < 400_000
        await page.unroute_all(behavior="ignoreErrors")
        await browser.close()


@pytest.mark.skipif(asked_for() != ALL and not PICTURE, reason="the page is looked at where all tests are asked for")
@pytest.mark.parametrize("runtime", ["embedded"], indirect=True, scope="session")
async def test_the_list_shows_what_is_not_ready_as_get_pods_does(
    engine: EngineNode, web: LivePod, chromium: Path, tmp_path: Path
) -> None:
    """At the address that `up` prints; a browser keeps the columns that were once added to its list."""
    server = web.node.server
    columns = [{"label": label, "pinned": False} for label in ("Workflow ID", "PodStatus", "PodRestarts", "PodReady")]
    kept = json.dumps(json.dumps({server.namespace: columns}))
    async with engine.pods() as pods, async_playwright() as playwright:
        broken = await pods.apply("broken", shell("app", "exit 3"))
        await broken.until(lambda pod: "CrashLoopBackOff" in str(status_of(pod, "app").get("state")))
        browser = await playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1400, "height": 700}, color_scheme="light")
        await page.add_init_script(f"localStorage.setItem('namespace-workflow-table-columns', {kept})")
        await show(page, not_ready_page(server.ui, server.namespace), page.get_by_text("PodRestarts"))
        row = page.get_by_role("row").filter(has_text=broken.handle.id)
        await expect(row).to_contain_text("CrashLoopBackOff", timeout=60_000)
        await page.screenshot(path=tmp_path / "list.png")
        cells = [" ".join(text.split()) for text in await row.get_by_role("cell").all_text_contents()]
        status, restarts, ready = [each for each in cells if each][-3:]
        assert (status, ready) == ("CrashLoopBackOff", "false") and int(restarts) >= 1
        assert await page.get_by_role("row").filter(has_text=web.handle.id).count() == 0, "it is ready"
        await page.unroute_all(behavior="ignoreErrors")
        await browser.close()


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
    await page.goto(address, timeout=60_000)
    await expect(sign).to_be_visible(timeout=60_000)


async def storied_pod(pods: Pods) -> LivePod:
    """Apply it and wait until it stays; for a picture its back-off has its ten seconds, else an operator ends it."""
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    crash = 'echo x >> /scratch/runs; [ "$(wc -l < /scratch/runs)" -gt 2 ] || { sleep 1; exit 1; }; exec sleep 1000'
    document = pods.manifest(
        "web",
        shell("web", crash, volumeMounts=mounts),
        initContainers=[shell("migrate", "sleep 1"), shell("proxy", restartPolicy="Always")],
        volumes=[{"name": "scratch", "emptyDir": {}}],
    )
    document["metadata"]["name"] = "web"
    pod = pods.know(document)
    await pod.apply(document)
    if not PICTURE:
        await pod.until(lambda pod: "CrashLoopBackOff" in str(status_of(pod, "web").get("state")))
        await pod.handle.signal("backoff_expired", {"container": "web"})
    await pod.running(web=2)
    return pod


async def timeline_of(pod: LivePod) -> str:
    """The address of its page."""
    server = pod.node.server
    run = (await pod.handle.describe()).run_id
    return f"{server.ui}/namespaces/{server.namespace}/workflows/{quote(pod.handle.id, safe='')}/{run}/timeline"
