"""The embedded PostgreSQL that ends by itself and cannot be started again, most likely because the disk is full."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from latchkey.database.embedded.postgres import EmbeddedServer
from latchkey.database.errors import StorageError
from latchkey.process.supervision.stop_signal import StopSignal
from latchkey.process.up import command


class Broken:
    log = "server.log"

    def failed(self) -> bool:
        return True

    def restart(self, said: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        raise StorageError("FATAL: no space left on device")


async def test_a_database_that_cannot_be_started_is_tried_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    clock = iter([0.0])

    async def asked(_: StopSignal, seconds: float) -> bool:
        if seconds:
            pauses.append(seconds)
        return len(pauses) > 1_100

    monkeypatch.setattr(command, "LOOK_SECONDS", 0)
    monkeypatch.setattr(command, "_asked", asked)
    # It ran for days before.
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(clock, 1_000_000 + sum(pauses))))
    await command.keep_running(cast(EmbeddedServer, Broken()), StopSignal(), lambda _: None)
    assert pauses[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
    assert set(pauses[8:]) == {10.0}
