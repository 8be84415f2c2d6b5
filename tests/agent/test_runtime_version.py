from __future__ import annotations

from syncpod.agent.runtime_version import FollowedVersion
from syncpod.cri.errors import Unavailable
from syncpod.cri.port import RuntimeVersion

OLD, NEW = RuntimeVersion("containerd", "v2.4.2"), RuntimeVersion("containerd", "v2.4.3")


async def test_a_runtime_upgrade_is_noticed_once_and_recorded_once_the_disk_allows() -> None:
    answers: list[RuntimeVersion | Exception] = []
    written: list[RuntimeVersion] = []
    full = [True]

    async def ask() -> RuntimeVersion:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def write(version: RuntimeVersion) -> None:
        if full[0]:
            raise OSError(28, "No space left on device")
        written.append(version)

    followed = FollowedVersion(OLD, ask, write)
    for answer, known in ((OLD, OLD), (Unavailable("version", "UNAVAILABLE", "gone"), OLD), (NEW, OLD)):
        answers.append(answer)
        await followed.look()
        assert followed.current == known
    full[0] = False
    answers += [NEW, NEW]
    await followed.look()
    await followed.look()
    assert (followed.current, written) == (NEW, [NEW])
