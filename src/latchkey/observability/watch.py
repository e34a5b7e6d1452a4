"""The metrics of one process, and with those of its siblings and of the database the whole text of `/metrics`."""

import asyncio
import hmac
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from cryptography import x509
from prometheus_client import REGISTRY
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.observability.gauges import QueueGauges, metrics_of
from latchkey.observability.peer_metrics import ProcessIdentity, Siblings, joined, text_of
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
        identity = identity or ProcessIdentity("+".join(roles))
        # Of the process.
        self.name = identity.name
        self._key = settings.metrics_key.encode()
        # The default registry has the delivery role's, and the library's own about the process: memory, CPU, files.
        self._collectors: list[Collector] = [REGISTRY, ProcessFigures(database, settings, roles)]
        self.standing = QueueGauges(database, now)
        self.siblings = Siblings(identity, self._own)

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
        for collector in self._collectors:
            yield from collector.collect()

    async def text(self) -> bytes:
        """Of all processes of this machine, and of the database."""
        shared, others = await asyncio.gather(self.standing.families(), self.siblings.ask())
        answered = {self.name: 1, **{name: int(text is not None) for name, text in others.items()}}
        up = metrics_of({"latchkey_process_up": answered})
        return joined([text_of([*up, *shared]), self._own(), *(text for text in others.values() if text is not None)])

    def _own(self) -> str:
        return text_of(self.families(), {"process": self.name})


class ProcessFigures(Collector):
    """What every process says of itself: its version, its connections to the database, the certificate it shows."""

    def __init__(self, database: Database, settings: Settings, roles: tuple[str, ...]) -> None:
        self._database = database
        self._expires = expiry_of(settings.tls_cert) if "api" in roles else None
        self._about = {"version": version("latchkey"), "python": platform.python_version(), "roles": ",".join(roles)}

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("latchkey_build", "The version of this process, and its roles.", value=self._about)
        usage = self._database.usage()
        found: dict[str, float | Mapping[str, float]] = {
            "latchkey_pool_connections": {"in_use": usage.in_use, "idle": usage.idle},
            "latchkey_pool_size": usage.most,
            "latchkey_pool_waiting": usage.waiting,
        }
        if self._expires is not None:
            found["latchkey_certificate_expires_timestamp_seconds"] = self._expires
        yield from metrics_of(found)


@cache
def expiry_of(certificate: Path | None) -> float | None:
    """When the first certificate of this file ends, in seconds since 1970. Read once: a process serves what it found at
    its start, whatever the file says later."""
    if certificate is None:
        return None
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()
    except (OSError, ValueError):
        return None
