"""A pod in the Temporal UI: each step with its reason, each back-off as a bar.

`SYNCPOD_PICTURES=docs` makes this take the README's pictures.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Browser, FloatRect, Locator, Page, Route, async_playwright, expect
from playwright.async_api import Error as PlaywrightError
from temporalio.api.common.v1 import Payload

from syncpod.cli.actions.up_texts import not_ready_page
from tests.e2e.engine import EngineNode, LivePod, Pods, shell, status_of
from tests.fork_server import run_syncpod
from tests.nightly import NIGHTLY
from tests.runtimes.selection import ALL, asked_for

PICTURES = os.environ.get("SYNCPOD_PICTURES")
STORY = (
    "create_sandbox • create sandbox: first sandbox",
    "start_init_container • start migrate: first start",
    "start_init_container • start proxy: first start",
    "start_container • start web: first start",
    "start_container • start web, restart 1, after exit 1 (Error)",
    "web exited 1 after Ns; restart 2 in 10s",
    "backoff_queue" if PICTURES else "backoff_expired",
    "start_container • start web, restart 2, after exit 1 (Error)",
)
"""The rows of the page from top to bottom; if no picture is taken, an operator ends the back-off."""
LOOKS = pytest.mark.skipif(
    asked_for() != ALL and not PICTURES, reason="pages are looked at where all tests are asked for"
)
EMBEDDED = pytest.mark.parametrize("runtime", ["embedded"], indirect=True, scope="session")
"""The data of a page is the same on each runtime."""
PATIENCE = 300_000
"""The longest wait for a page in milliseconds: tests assert what appears, never how soon."""
RESTARTS, LONGEST_BACKOFF = (36, "5s") if PICTURES or NIGHTLY else (4, "1s")
"""The length of the crash loop: four minutes for pictures and nightly runs, else just long enough."""
LONGEST_LINE = 120
"""The largest number of characters in a row of the timeline."""
CRASH_LOOP = (
    "start_container • start app, restart #, after exit # (Error)",
    "app exited # after #s; restart # in #s",
)
"""The rows of each restart, without their numbers."""
BEGIN = {
    "apply",
    "create_sandbox • create sandbox: first sandbox",
    "start_container • start app: first start",
}
README = Path(__file__).parents[2] / "README.md"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def web(engine: EngineNode) -> AsyncIterator[LivePod]:
    """A pod with an init container, a sidecar and a container that crashes twice before it stays."""
    async with engine.pods() as pods:
        yield await storied_pod(pods)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(engine: EngineNode) -> AsyncIterator[LivePod]:
    """A pod that crashes again and again."""
    quickly = {"syncpod.dev/backoff-initial": "1s", "syncpod.dev/backoff-max": LONGEST_BACKOFF}
    async with engine.pods() as pods:
        crash = "echo cannot reach db:5432; sleep 1; exit 3"
        yield await named(pods, "shop", shell("app", crash), annotations=quickly)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(chromium: Path) -> AsyncIterator[Browser]:
    """Chromium, without a screen."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        yield browser
        await browser.close()


async def test_the_history_has_each_step_with_its_reason(web: LivePod) -> None:
    assert [timeless(text) async for text in told_by(web) if text not in ("apply", "pleg")] == list(STORY)


@EMBEDDED
async def test_a_listing_is_signalled_only_if_it_tells_what_no_step_has_returned(web: LivePod, shop: LivePod) -> None:
    """Each row `pleg` is news, so that none could be left out: a restart of a crash loop costs one."""
    await shop.until(lambda pod: status_of(pod, "app").get("restartCount", 0) >= RESTARTS, patience=1_800)
    for pod in (web, shop):
        told: set[tuple[str, str]] = set()
        restarts = listings = 0
        async for event in pod.handle.fetch_history_events():
            signal = event.workflow_execution_signaled_event_attributes
            if signal.signal_name == "pleg":
                news = listed(signal.input.payloads) - told
                assert news, f"event {event.event_id} of {pod.name} repeats what is known"
                listings += 1
                told |= news
            elif event.HasField("activity_task_completed_event_attributes"):
                told |= listed(event.activity_task_completed_event_attributes.result.payloads)
            restarts += b"start_container" in event.activity_task_scheduled_event_attributes.activity_type.name.encode()
        assert 1 <= listings <= restarts + 3, (listings, restarts)


def listed(payloads: Iterable[Payload]) -> set[tuple[str, str]]:
    """The sandboxes and containers of a listing: id and state."""
    (payload,) = payloads
    status = json.loads(payload.data)["status"]
    sandboxes, containers = status.get("sandboxes", ()), status.get("containers", ())
    return {(each["id"], str(each.get("state", ""))) for each in (*sandboxes, *containers)}


def timeless(text: str) -> str:
    """The text without durations, which depend on the machine."""
    return re.sub(r"after \d+s", "after Ns", text)


def numberless(text: str) -> str:
    """The text without the parts that differ between restarts: numbers, times, and the width of columns."""
    return " ".join(re.sub(r"\d+(\.\d+)?", "#", text).split())


def restart_from(number: int) -> re.Pattern[str]:
    """A pattern for a start with this number or a slightly higher one, since the loop continues meanwhile."""
    return re.compile(rf"start app, restart ({'|'.join(str(number + more) for more in range(100))}),")


@LOOKS
@EMBEDDED
async def test_the_timeline_shows_each_step_with_its_reason(web: LivePod, browser: Browser, tmp_path: Path) -> None:
    async with looking(browser, height=1140) as page:
        await show(page, await timeline_of(web), page.get_by_text("Descending"))
        await page.get_by_text("Descending").click()
        await expect(rows_of(page).filter(has_text=STORY[-1])).to_be_attached(timeout=PATIENCE)
        assert [timeless(text) for text in await told_on(page) if text not in ("apply", "pleg")] == list(STORY)

        await take_picture(page, tmp_path, "timeline.png")


@LOOKS
@EMBEDDED
async def test_the_list_shows_what_is_not_ready_as_get_pods_does(
    engine: EngineNode, web: LivePod, shop: LivePod, browser: Browser, tmp_path: Path
) -> None:
    """At the address that `up` prints; a browser keeps the columns that were once added to its list.

    Meanwhile `shop` crashes for the next test.
    """
    server = web.node.server
    columns = [{"label": label, "pinned": False} for label in ("Workflow ID", "PodStatus", "PodRestarts", "PodReady")]
    kept = json.dumps(json.dumps({server.namespace: columns}))
    refuses = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    async with engine.pods() as pods, looking(browser, height=600) as page:
        broken = await named(pods, "broken", shell("app", "exit 3"))
        unready = await named(pods, "unready", shell("app", readinessProbe=refuses))
        starts = await named(pods, "starts", shell("app"), initContainers=[shell("migrate")])
        await broken.until(lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] >= 2)
        await broken.until(lambda pod: "CrashLoopBackOff" in str(status_of(pod, "app").get("state")))
        await unready.until(lambda pod: "running" in status_of(pod, "app").get("state", {}))
        await page.add_init_script(f"localStorage.setItem('namespace-workflow-table-columns', {kept})")
        await show(page, not_ready_page(server.ui, server.namespace), page.get_by_text("PodRestarts"))
        await expect(page.get_by_role("row").filter(has_text=shop.handle.id)).to_be_attached(timeout=PATIENCE)
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


@LOOKS
@EMBEDDED
async def test_a_crash_loop_is_readable_at_a_glance(shop: LivePod, browser: Browser, tmp_path: Path) -> None:
    """A restart is a start, and an end with the wait; `explain` says the same, and README shows both of this pod."""
    async with looking(browser, height=1400) as page:
        await shop.until(lambda pod: status_of(pod, "app").get("restartCount", 0) >= RESTARTS, patience=1_800)
        await show(page, await timeline_of(shop), page.get_by_text("Descending"))
        await expect(rows_of(page).filter(has_text=restart_from(RESTARTS)).first).to_be_attached(timeout=PATIENCE)
        told = await told_on(page)
        assert {numberless(text) for text in told} - {*CRASH_LOOP, *BEGIN} == {"pleg", "backoff_queue"}
        assert max(map(len, told)) <= LONGEST_LINE

        await choose(page, "Activity", "Timer")
        told = await told_on(page)
        assert {numberless(text) for text in told} - BEGIN == set(CRASH_LOOP)
        starts = sorted(int(found[1]) for text in told if (found := re.search(r"start app, restart (\d+),", text)))
        assert starts == list(range(starts[0], starts[-1] + 1)) and starts[-1] >= RESTARTS, "each of them, once"
        await take_picture(page, tmp_path, "crash-loop.png", of=page.locator("#event-history-timeline-graph"))
        said = explained(shop)
    (Path(PICTURES or tmp_path) / "crash-loop.txt").write_text(said)
    assert shown_in_readme() <= {numberless(line) for line in said.splitlines()}


@contextlib.asynccontextmanager
async def looking(browser: Browser, *, height: int) -> AsyncIterator[Page]:
    """Yield a page of the browser without stored settings."""
    page = await browser.new_page(viewport={"width": 1400, "height": height}, color_scheme="light")
    yield page
    await page.unroute_all(behavior="ignoreErrors")
    await page.close()


def rows_of(page: Page) -> Locator:
    """The rows that are visible in a timeline."""
    return page.get_by_role("listitem").filter(has=page.get_by_role("button", name="Event "))


async def told_on(page: Page) -> list[str]:
    """The texts of these rows, in order of time. A row that is just being drawn has no text yet."""
    return [" ".join(text.split()) for text in await rows_of(page).all_text_contents() if text.strip()]


async def choose(page: Page, *kinds: str) -> None:
    """Show only rows of these kinds, by the menu above the timeline."""
    await page.get_by_role("button", name="Filter").click()
    for kind in ("None", *kinds):
        await page.get_by_text(kind, exact=True).last.click()
    await page.keyboard.press("Escape")
    await expect(rows_of(page).filter(has_text=re.compile("^ *backoff_queue *$"))).to_have_count(0, timeout=PATIENCE)


def explained(pod: LivePod) -> str:
    """The output of `syncpod explain` about it."""
    state_dir = pod.node.worker.state_dir
    home = state_dir.parent
    places = {"SYNCPOD_STATE_DIR": str(state_dir), "SYNCPOD_LOG_DIR": str(home / "logs")}
    done = run_syncpod(("explain", pod.name), env={**os.environ, **places})
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(home), "/var/lib/syncpod")


def shown_in_readme() -> set[str]:
    """The lines of `syncpod explain` about this pod in README, without those that depend on timing."""
    found = re.search(r"^\$ syncpod explain shop\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return {numberless(line) for line in found[1].splitlines() if not re.match(r" +(- it |\d|…)", line)}


async def take_picture(page: Page, directory: Path, name: str, *, of: Locator | None = None) -> None:
    """Take the README's picture of this name, or a temporary one; assert that something is drawn on it.

    With `of`, as much of that element as the window shows, below the bar that stays above it.
    """
    clip = await scrolled_to(of) if of is not None else None
    await page.wait_for_timeout(1_000)  # bars are drawn in a short animation
    assert 20_000 < len(await page.screenshot(path=Path(PICTURES or directory) / name, clip=clip)) < 400_000


async def scrolled_to(element: Locator) -> FloatRect:
    """Scroll to an element; return its area with the bar above it."""
    await element.evaluate("it => { it.style.scrollMarginTop = '104px'; it.scrollIntoView(); }")
    box, size = await element.bounding_box(), element.page.viewport_size
    assert box is not None and size is not None
    top = box["y"] - 56
    return {"x": box["x"], "y": top, "width": box["width"], "height": size["height"] - top}


async def named(pods: Pods, name: str, *containers: dict[str, Any], **more: Any) -> LivePod:
    """Apply a pod with exactly this name."""
    annotations = more.pop("annotations", {})
    document = pods.manifest(name, *containers, **more)
    document["metadata"] |= {"name": name, "annotations": annotations}
    pod = pods.know(document)
    await pod.apply(document)
    return pod


async def told_by(pod: LivePod) -> AsyncIterator[str]:
    """The source of the timeline: activities, timers and signals with their summaries, in order."""
    async for event in pod.handle.fetch_history_events():
        summary = json.loads(event.user_metadata.summary.data or '""')
        if event.HasField("activity_task_scheduled_event_attributes"):
            yield f"{event.activity_task_scheduled_event_attributes.activity_type.name} • {summary}"
        elif event.HasField("timer_started_event_attributes"):
            yield summary
        elif event.HasField("workflow_execution_signaled_event_attributes"):
            yield event.workflow_execution_signaled_event_attributes.signal_name


async def show(page: Page, address: str, sign: Locator) -> None:
    """Load the page until its own content appears, with everything fetched outside of Chromium.

    Chromium itself drops what it is loading whenever the machine gets or loses a network interface, as with every pod.
    """

    async def fetch(route: Route) -> None:
        with contextlib.suppress(PlaywrightError):  # the page polls for news of the run until it is closed
            await route.fulfill(response=await route.fetch())

    await page.route("**/*", fetch)
    await page.goto(address, timeout=PATIENCE)
    await expect(sign).to_be_visible(timeout=PATIENCE)


async def storied_pod(pods: Pods) -> LivePod:
    """Apply the pod and wait until it keeps running; its back-off of ten seconds is ended, except for pictures."""
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
    """The address of its timeline page."""
    server = pod.node.server
    run = (await pod.handle.describe()).run_id
    return f"{server.ui}/namespaces/{server.namespace}/workflows/{quote(pod.handle.id, safe='')}/{run}/timeline"
