"""What a pod went through is in the node's journal though its worker was killed, and after the pod is gone."""

from __future__ import annotations

from pathlib import Path

from syncpod.journal.explain import explain
from syncpod.journal.reading import Account, NoJournal, accounts_of, pods_of
from tests.agent.waiting import until
from tests.e2e.faults_support import FaultyNode, shell

QUICKLY = {"syncpod.dev/backoff-initial": "1s", "syncpod.dev/backoff-max": "1s"}


def journaled(state_dir: Path, name: str) -> Account | None:
    try:
        return next(iter(accounts_of(state_dir, "default", name)), None)
    except NoJournal:
        return None


async def test_a_crash_loop_a_killed_worker_and_a_deletion_are_all_told(node: FaultyNode) -> None:
    script = "echo words of $$; exit 3"
    pod = await node.apply(shell("a", script), annotations=QUICKLY)

    def ends() -> int:
        account = journaled(node.worker.state_dir, pod.name)
        return sum(each.has_ended for each in account.instances) if account is not None else 0

    await until(lambda: ends() >= 2, patience=120)
    await node.kill()
    await node.serve()
    before = ends()
    await until(lambda: ends() > before, patience=120)
    await pod.delete(grace=1)
    await until(lambda: (found := journaled(node.worker.state_dir, pod.name)) is not None and found.gone is not None)

    account = journaled(node.worker.state_dir, pod.name)
    assert account is not None
    numbers = [each.restart for each in account.instances]
    assert numbers == list(range(len(numbers))), "no instance is missing, and none is there twice"
    exited = [each for each in account.instances if not each.cause]
    assert {each.exit_code for each in exited} == {3}
    assert all(each.log_end.startswith("words of ") for each in exited), "the end of each log, though the logs are gone"
    exits = [line.restart for line in account.lines if line.kind == "exit"]
    assert sorted(set(exits)) == sorted(exits), "each exit is told once"
    assert "delete" in {line.subject for line in account.lines if line.kind == "update"}
    assert {life.name for life, _ in pods_of(node.worker.state_dir)} >= {pod.name}
    assert all(life.name for life, _ in pods_of(node.worker.state_dir)), "what is removed has a pod"
    told = explain(account, account.seen)
    assert told.is_gone
    assert {end.cause.words for end in told.containers[0].ends} <= {"exited 3", "the pod was deleted"}
