"""The metrics of one process as Prometheus' text, joined with those of the other processes of the machine.

The processes ask each other, so that any of them can answer for all. Each listens on a local socket. Its name is in
Linux' abstract namespace: it needs no folder and ends with the process. Only processes of the same user are answered,
and only those are believed. Where there is no such namespace, a process answers for itself alone.
"""

import asyncio
import os
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import structlog
from msgspec import Struct
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

log = structlog.get_logger()

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A process that is busy for longer than this is left out of one scrape.
_PATIENCE_SECONDS = 5.0
_FAMILY = re.compile(r"^(?=# HELP )", re.MULTILINE)


class _Labelled(Collector):
    def __init__(self, families: Iterable[Metric], labels: Mapping[str, str]) -> None:
        self._families = families
        self._labels = labels

    def collect(self) -> Iterable[Metric]:
        for family in self._families:
            labelled = Metric(family.name, family.documentation, family.type)
            labelled.samples = [
                sample._replace(labels={**self._labels, **sample.labels})
                for sample in family.samples
                # When a counter was created. Prometheus has no use for it, and it doubles the number of families.
                if not sample.name.endswith("_created")
            ]
            yield labelled


def text_of(families: Iterable[Metric], labels: Mapping[str, str] | None = None) -> str:
    """These families, every sample with these labels besides its own."""
    return generate_latest(_Labelled(families, labels or {})).decode()


def joined(texts: Iterable[str]) -> bytes:
    """One text, in which all lines of a family are together."""
    families: dict[str, list[str]] = {}
    for text in texts:
        for family in filter(None, _FAMILY.split(text)):
            about, kind, lines = family.split("\n", 2)
            families.setdefault(about.split()[2], [f"{about}\n{kind}\n"]).append(lines)
    return "".join(part for parts in families.values() for part in parts).encode()


class ProcessIdentity(Struct, frozen=True):
    """Which process this is, and who the others are."""

    # As the supervisor calls it: `api-1`, `background`.
    name: str
    # The same for all processes of one supervisor, and no other. Empty: there are no others.
    family: str = ""
    # The names of all of them, this one included.
    names: tuple[str, ...] = ()


class Siblings:
    def __init__(self, identity: ProcessIdentity, own: Callable[[], str]) -> None:
        self._name = identity.name
        self._family = identity.family if sys.platform == "linux" else ""
        self._others = [name for name in identity.names if name != self._name] if self._family else []
        self._own = own
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        if self._family:
            try:
                self._server = await asyncio.start_unix_server(self._answer, path=self._address(self._name))
            except OSError as error:
                log.warning("metrics of this process cannot be gathered", process=self._name, reason=str(error))

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def ask(self) -> dict[str, str | None]:
        """What each of the other processes says, by name; None from those that did not answer."""
        answers = await asyncio.gather(*(asyncio.to_thread(self._ask, name) for name in self._others))
        return dict(zip(self._others, answers, strict=True))

    def _ask(self, name: str) -> str | None:
        with socket.socket(socket.AF_UNIX) as asking, suppress(OSError):
            asking.settimeout(_PATIENCE_SECONDS)
            asking.connect(self._address(name))
            if _is_ours(asking):
                return asking.makefile("rb").read().decode()
        return None

    async def _answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError):
            if _is_ours(writer.get_extra_info("socket")):
                writer.write(self._own().encode())
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await writer.drain()
        writer.close()

    def _address(self, name: str) -> str:
        return f"\0latchkey-{self._family}-{name}"


def _is_ours(connected: socket.socket) -> bool:
    """Whether the process at the other end runs as the same user. Anybody can connect to an abstract name."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())
