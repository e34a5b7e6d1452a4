"""Creates the services, and provides them to routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import Depends, Request

from latchkey.api.exchange import SERVICES_KEY
from latchkey.api.metrics import Metrics
from latchkey.api.outside import connect, exports_of, mail_of
from latchkey.delivery.sealing import Sealer
from latchkey.delivery.sending.sender import Sender
from latchkey.delivery.webhook import Webhooks
from latchkey.domain.instants import Ms
from latchkey.settings import Settings
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.database import Database
from latchkey.storage.write_probe import WriteProbe
from latchkey.subjects.charts.storage.fact_cache import FactCache, default_folder
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
from latchkey.usecases.services import Services
from latchkey.usecases.stores.incoming import Inbox
from latchkey.usecases.stores.receipt_limit import ReceiptLimit
from latchkey.usecases.stores.receipts import Receipts, TemporaryGrants
from latchkey.usecases.webhooks.registry import Registry


def assemble(
    database: Database,
    settings: Settings,
    now: Callable[[], Ms],
    metrics: Metrics,
    restarting: Callable[[], Sequence[str]],
) -> Services:
    catalogs = Catalogs()
    allowed = settings.webhook_allow_networks
    changes = Changes(database, now, catalogs, measure=metrics.change_batch)
    stores = connect(database, settings, now)
    leases = Leases(database)
    metrics.leases = leases.held
    reader = Reader(database, catalogs, leases, measure=metrics.read_batch)
    grants = TemporaryGrants(settings.temporary_grants, settings.temporary_grants_per_hour)
    receipt_limit = ReceiptLimit(settings.unverified_receipt_bytes_per_day)
    receipts = Receipts(stores, changes, grants, receipt_limit)
    return Services(
        database=database,
        now=now,
        catalogs=catalogs,
        leases=leases,
        admission=Admission(database, leases, measure=metrics.admission_batch),
        refused_keys=RefusedKeys(database),
        reader=reader,
        changes=changes,
        presence=Presence(database, dropped=metrics.visit_dropped),
        second_factors=SecondFactors(database, Sealer(settings.secret_key)),
        mail=mail_of(database, settings),
        webhooks=Registry(database, Webhooks(database, Sealer(settings.secret_key)), allowed),
        sender=Sender(now, timeout_ms=settings.webhook_timeout_ms, allowed=allowed, extra_ca=settings.webhook_extra_ca),
        stores=stores,
        inbox=Inbox(stores),
        receipts=receipts,
        receipt_limit=receipt_limit,
        checkouts=Checkouts(stores, changes, reader, receipts),
        charts=FactCache(database, settings.charts_folder or default_folder()),
        exports=exports_of(database, settings),
        phone_limit=PhoneLimit(settings.address_requests_per_minute),
        idempotency=Idempotency(database, Sealer(settings.secret_key), now),
        write_probe=WriteProbe(database),
        restarting=restarting,
        behind_proxy=settings.behind_proxy,
        keys_create_projects=settings.keys_create_projects,
    )


# A coroutine: FastAPI runs a plain function in a thread, which costs more than the rest of a small request.
async def services_of(request: Request) -> Services:
    services: Services = request.scope[SERVICES_KEY]
    return services


Provided = Annotated[Services, Depends(services_of)]
