"""The metrics of one process, and with those of its siblings and of the database the whole text of `/metrics`."""

import asyncio
import hmac
from collections.abc import Callable, Iterable

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.observability.exposition import Block, blocks, joined
from latchkey.observability.gauges import QueueGauges
from latchkey.observability.peer_metrics import ProcessIdentity, Siblings
from latchkey.observability.process_metrics import ProcessFigures
from latchkey.settings import Settings


class Watch:
    def __init__(
        self,
        database: Database,
        settings: Settings,
        now: Callable[[], Ms],
        identity: ProcessIdentity | None = None,
        roles: tuple[str, ...] = ("api",),
    ) -> None:
        self._identity = identity or ProcessIdentity("+".join(roles))
        self._key = settings.metrics_key.encode()
        # The default registry has the delivery role's, and the library's own about the process: memory, CPU, files.
        self._collectors: list[Collector] = [REGISTRY, ProcessFigures(database, settings, roles)]
        self.standing = QueueGauges(database, now)
        self.siblings = Siblings(self._identity, self._own)

    @property
    def name(self) -> str:
        """Of the process."""
        return self._identity.name

    @property
    def has_key(self) -> bool:
        return bool(self._key)

    def admits(self, authorization: bytes | None) -> bool:
        """Whether this header has the key. In a time that does not tell how much of it is right."""
        sent = authorization or b""
        sent = sent[7:].strip() if sent[:7].lower() == b"bearer " else b""
        return hmac.compare_digest(sent, self._key) and bool(self._key)

    def add(self, collector: Collector) -> None:
        self._collectors.append(collector)

    def families(self) -> Iterable[Metric]:
        """What this process says."""
        for collector in self._collectors:
            yield from collector.collect()

    async def text(self) -> bytes:
        """Of all processes of this machine, and of the database."""
        shared, others = await asyncio.gather(self.standing.families(), self.siblings.ask())
        up = GaugeMetricFamily("latchkey_process_up", "Whether the process answered.", labels=("process",))
        up.add_metric((self._identity.name,), 1)
        for name, found in others.items():
            up.add_metric((name,), int(found is not None))
        answers = [found for found in others.values() if found is not None]
        return joined([blocks([up, *shared]), self._own(), *answers])

    def _own(self) -> list[Block]:
        return blocks(self.families(), {"process": self._identity.name})
