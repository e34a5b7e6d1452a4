"""The objects that routes and pages share, created when the application starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from latchkey.delivery.sending.sender import Sender
from latchkey.domain.instants import Ms
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.storage.write_probe import WriteProbe
from latchkey.subjects.charts.storage.fact_cache import FactCache
from latchkey.usecases.access.idempotency import Idempotency
from latchkey.usecases.access.second_factor import SecondFactors
from latchkey.usecases.checkout.checkouts import Checkouts
from latchkey.usecases.engine.admission import Admission
from latchkey.usecases.engine.changes import Changes
from latchkey.usecases.engine.leases import Leases
from latchkey.usecases.engine.presence import Presence
from latchkey.usecases.engine.reading import Reader
from latchkey.usecases.engine.recent_counts import PhoneLimit
from latchkey.usecases.engine.refused_keys import RefusedKeys
from latchkey.usecases.exports.schedules import Exports
from latchkey.usecases.mail.outbox import Mail
from latchkey.usecases.stores.connections import Connections
from latchkey.usecases.stores.incoming import Inbox
from latchkey.usecases.stores.receipt_limit import ReceiptLimit
from latchkey.usecases.stores.receipts import Receipts
from latchkey.usecases.webhooks.registry import Registry


@dataclass(frozen=True, slots=True)
class Services:
    database: Database
    # The wall clock. For a customer on a test clock, that clock is used instead.
    now: Callable[[], Ms]
    catalogs: Catalogs
    # Of rate limits. `admission` and `reader` share them.
    leases: Leases
    admission: Admission
    refused_keys: RefusedKeys
    reader: Reader
    changes: Changes
    presence: Presence
    second_factors: SecondFactors
    # None: no mail is sent.
    mail: Mail | None
    webhooks: Registry
    # Only for test events; real events are sent by the delivery role.
    sender: Sender
    stores: Connections
    # Notifications from stores, and receipts of real stores.
    inbox: Inbox
    receipts: Receipts
    receipt_limit: ReceiptLimit
    # Sales of web pages.
    checkouts: Checkouts
    charts: FactCache
    # Exports that run by themselves.
    exports: Exports
    # For requests with public keys.
    phone_limit: PhoneLimit
    # Of requests with an Idempotency-Key.
    idempotency: Idempotency
    # For the health check; the second names the processes of this machine that crash again and again.
    write_probe: WriteProbe
    restarting: Callable[[], Sequence[str]]
    # Whether a proxy in front sends the client's address.
    behind_proxy: bool
    # Whether a secret key may create projects.
    keys_create_projects: bool
