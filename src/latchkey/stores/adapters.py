"""The adapters of every store that can be connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latchkey.domain.instants import Ms
from latchkey.stores.adapter import Adapter
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.stores.http import StoreHttp


def adapters(now: Callable[[], Ms], extra_ca: bytes | None = None) -> Mapping[str, Adapter]:
    """By the store's name. Each keeps connections open; close them with `close`."""
    made: tuple[Adapter, ...] = (
        AppleAdapter(now, StoreHttp("Apple", now, extra_ca=extra_ca)),
        GoogleAdapter(now, StoreHttp("Google", now, extra_ca=extra_ca)),
    )
    return {one.store: one for one in made}
