"""Google's public certificates, fetched once and kept for as long as Google says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND, Ms
from latchkey.stores.errors import StoreDown
from latchkey.stores.http import StoreHttp

# Google says about 6 hours. Whatever an answer says, it is asked again within a day and not at every push.
SHORTEST: Ms = 5 * MINUTE
LONGEST: Ms = DAY
UNSAID: Ms = HOUR
# An unknown key id, which anybody can invent, leads to at most one request in this time.
PAUSE: Ms = MINUTE
PAUSE_AFTER_FAILURE: Ms = 5 * SECOND
# How long certificates past their time still count when Google cannot be asked.
STALE: Ms = DAY

_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,9})", re.ASCII | re.IGNORECASE)
_MOST_CERTIFICATES = 50


@dataclass(slots=True)
class _Kept:
    # By key id, in PEM form.
    certificates: dict[str, str] = field(default_factory=dict)
    fresh_until: Ms = 0
    ask_after: Ms = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Certificates:
    def __init__(self, http: StoreHttp, now: Callable[[], Ms]) -> None:
        self._http = http
        self._now = now
        self._kept: dict[str, _Kept] = {}

    async def find(self, url: str, kid: str) -> str | None:
        """The certificate of a key id; None where Google has none. StoreDown where that cannot be found out now."""
        kept = self._kept.setdefault(url, _Kept())
        found = kept.certificates.get(kid)
        if found is not None and self._now() < kept.fresh_until:
            return found
        async with kept.lock:
            return await self._ask(kept, url, kid)

    async def _ask(self, kept: _Kept, url: str, kid: str) -> str | None:
        now = self._now()
        fresh = now < kept.fresh_until
        if now >= kept.ask_after and not (fresh and kid in kept.certificates):
            try:
                kept.certificates, kept.fresh_until = await self._fetch(url)
            except StoreDown:
                kept.ask_after = self._now() + PAUSE_AFTER_FAILURE
                if kid not in kept.certificates or now >= kept.fresh_until + STALE:
                    raise
            else:
                kept.ask_after = self._now() + PAUSE
        elif kid not in kept.certificates and not fresh:
            raise StoreDown("Google's certificates could not be fetched a moment ago.", kept.ask_after - now)
        return kept.certificates.get(kid)

    async def _fetch(self, url: str) -> tuple[dict[str, str], Ms]:
        answer = await self._http.get(url)
        if answer.status != 200:
            raise StoreDown(f"Google answered {answer.status} for its certificates.")
        given = answer.json(dict[str, str], "Google")
        usable = {kid: pem for kid, pem in given.items() if _is_rsa(pem)}
        if not usable or len(given) > _MOST_CERTIFICATES:
            raise StoreDown("Google answered with something that is not its list of certificates.")
        return usable, self._now() + lifetime(answer.headers)


def lifetime(headers: Mapping[str, str]) -> Ms:
    """How long an answer may be kept, by its Cache-Control and Age, within our own bounds."""
    found = _MAX_AGE.search(headers.get("cache-control", ""))
    if found is None:
        return UNSAID
    age = headers.get("age", "").strip()
    passed = int(age) if age.isascii() and age.isdigit() and len(age) <= 9 else 0
    return min(max((int(found.group(1)) - passed) * SECOND, SHORTEST), LONGEST)


def _is_rsa(pem: str) -> bool:
    try:
        return isinstance(x509.load_pem_x509_certificate(pem.encode()).public_key(), RSAPublicKey)
    # Whatever is wrong with it, it is no certificate. The library's exceptions differ between its versions.
    except Exception:
        return False
