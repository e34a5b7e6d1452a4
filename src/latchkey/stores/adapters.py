"""The adapters of every store that can be connected, and the forms of their credentials."""

from collections.abc import Mapping

from latchkey.domain.stores.store import WEB_BILLING
from latchkey.now import real_now
from latchkey.stores.adapter import Adapter
from latchkey.stores.apple.adapter import AppleAdapter
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.stores.http import StoreHttp
from latchkey.stores.stripe.adapter import StripeAdapter


def adapters(extra_ca: bytes | None = None) -> Mapping[str, Adapter]:
    """By the store's name. Each keeps connections open; close them with `close`. The stores know no clock but the real
    one: it dates the tokens that we show them."""
    made: tuple[Adapter, ...] = (
        AppleAdapter(real_now, StoreHttp("Apple", real_now, extra_ca=extra_ca)),
        GoogleAdapter(real_now, StoreHttp("Google", real_now, extra_ca=extra_ca)),
        StripeAdapter(real_now, StoreHttp("Stripe", real_now, extra_ca=extra_ca)),
        StripeAdapter(real_now, StoreHttp("Stripe", real_now, extra_ca=extra_ca), store=WEB_BILLING),
    )
    return {adapter.store: adapter for adapter in made}


# None of them opens a connection before it is used.
CREDENTIAL_FORMS = {store: adapter.credential_form for store, adapter in adapters().items()}
