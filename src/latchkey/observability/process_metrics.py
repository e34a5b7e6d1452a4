"""What every process says of itself: its version, its connections to the database, the certificate it shows."""

import platform
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from cryptography import x509
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from latchkey.database.pool import Database
from latchkey.database.pool_gauges import PoolUsage, usage_of
from latchkey.settings import Settings


class ProcessFigures(Collector):
    def __init__(self, database: Database, settings: Settings, roles: tuple[str, ...]) -> None:
        self._database = database
        self._certificate = settings.tls_cert if "api" in roles else None
        self._roles = ",".join(roles)

    def collect(self) -> Iterator[Metric]:
        about = {"version": _version(), "python": platform.python_version(), "roles": self._roles}
        yield InfoMetricFamily("latchkey_build", "The version of this process, and its roles.", value=about)
        yield from _pool(usage_of(self._database))
        expires = expiry_of(self._certificate)
        if expires is not None:
            yield GaugeMetricFamily(
                "latchkey_certificate_expires_timestamp_seconds",
                "When the certificate of the API ends, as the file says now.",
                value=expires,
            )


def _pool(usage: PoolUsage) -> Iterator[Metric]:
    connections = GaugeMetricFamily(
        "latchkey_pool_connections", "Connections to the database: in use, idle.", labels=("state",)
    )
    connections.add_metric(("in_use",), usage.in_use)
    connections.add_metric(("idle",), usage.idle)
    yield connections
    yield GaugeMetricFamily("latchkey_pool_size", "The most connections that this process opens.", value=usage.most)
    yield GaugeMetricFamily("latchkey_pool_waiting", "Callers that wait for a connection.", value=usage.waiting)


def expiry_of(certificate: Path | None) -> float | None:
    """When the first certificate of this file ends, in seconds since 1970. It may have been renewed since the start."""
    if certificate is None:
        return None
    try:
        return _expiry(certificate, certificate.stat().st_mtime_ns)
    except (OSError, ValueError):
        return None


@cache
def _expiry(certificate: Path, _changed: int) -> float:
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()


@cache
def _version() -> str:
    return version("latchkey")
