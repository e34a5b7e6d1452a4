"""Reads a file of exchange rates: from this machine, or from an https address.

An address is called as a webhook is: its name is resolved once, every address of it must be public or in a network that
the operator allows, the connection goes to a checked address, and redirects are not followed.
"""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

from latchkey.delivery.sending import failure
from latchkey.delivery.sending.reading_url import parsed
from latchkey.delivery.sending.resolver import Lookup, NameNotFound, Resolver, system_lookup
from latchkey.domain.refusal import Refusal
from latchkey.domain.webhooks.address import Network, NotAllowed
from latchkey.http_client import HttpClient, HttpError

# The European Central Bank's whole history since 1999 has 1.3 MB.
LARGEST = 16 * 1024 * 1024
TIMEOUT = 30.0
_ZIP = b"PK\x03\x04"


class SourceUnreadable(Refusal):
    """The file or address cannot be read."""


class RateSource:
    """Where rates are read from. `extra_ca` is PEM, trusted in addition to the public authorities."""

    def __init__(
        self,
        *,
        allowed: Sequence[Network] = (),
        extra_ca: Path | None = None,
        lookup: Lookup = system_lookup,
        timeout: float = TIMEOUT,
    ) -> None:
        self._allowed = allowed
        self._extra_ca = extra_ca
        self._lookup = lookup
        self._timeout = timeout

    async def read(self, source: str) -> str:
        """The text of a file, also where it is the only CSV file of a zip file."""
        if is_address(source):
            body = await self._fetch(source)
        else:
            body = await asyncio.to_thread(_read_file, source)
        return text_of(body)

    async def _fetch(self, url: str) -> bytes:
        resolver = Resolver(self._allowed, self._lookup)
        try:
            async with asyncio.timeout(self._timeout):
                where, _ = parsed(url)
                address = (await resolver.addresses(where))[0]
                client = HttpClient(
                    timeout=self._timeout,
                    connect_timeout=self._timeout,
                    extra_ca=self._extra_ca.read_bytes() if self._extra_ca is not None else None,
                    address=(where.host, str(address), where.port) if where.literal is None else None,
                    use_proxy=False,
                    user_agent="latchkey",
                    # A small answer cannot unpack into a huge one.
                    decompress=False,
                )
                async with client:
                    response = await client.ask("GET", url, most_bytes=LARGEST)
        except (NotAllowed, NameNotFound) as error:
            raise SourceUnreadable(f"{shown(url)}: {str(error).replace(url, 'it')}") from None
        except (HttpError, TimeoutError, OSError) as error:
            words = failure.in_words(error, 0, round(self._timeout * 1000))
            raise SourceUnreadable(f"{shown(url)}: {words}.") from None
        finally:
            resolver.close()
        if response.status != 200:
            words = failure.of_status(response.status, response.header("location"))
            raise SourceUnreadable(f"{shown(url)}: {words}.")
        if len(response.body) > LARGEST:
            raise SourceUnreadable(f"{shown(url)} has more than {LARGEST // 1024**2} MB.")
        return response.body


def is_address(source: str) -> bool:
    return "://" in source


def shown(source: str) -> str:
    """Without the query, which often holds a key."""
    if not is_address(source):
        return source
    try:
        parts = urlsplit(source)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "(an address that is not a URL)"


def text_of(body: bytes) -> str:
    if body.startswith(_ZIP):
        body = _unpacked(body)
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SourceUnreadable("The file of exchange rates is not UTF-8 text.") from None


def _unpacked(body: bytes) -> bytes:
    try:
        with zipfile.ZipFile(BytesIO(body)) as packed:
            names = [one.filename for one in packed.infolist() if one.filename.lower().endswith(".csv")]
            if len(names) != 1:
                raise SourceUnreadable(f"The zip file has {len(names)} CSV files; one is expected.")
            with packed.open(names[0]) as file:
                text = file.read(LARGEST + 1)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, OSError):
        raise SourceUnreadable("The zip file of exchange rates cannot be unpacked.") from None
    if len(text) > LARGEST:
        raise SourceUnreadable(f"The file of exchange rates has more than {LARGEST // 1024**2} MB.")
    return text


def _read_file(source: str) -> bytes:
    path = Path(source)
    try:
        path = path.expanduser()
        with path.open("rb") as file:
            body = file.read(LARGEST + 1)
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceUnreadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(body) > LARGEST:
        raise SourceUnreadable(f"{path} has more than {LARGEST // 1024**2} MB.")
    return body
