"""When background work of each kind is next due, in all projects together."""

from __future__ import annotations

from msgspec import Struct

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_LOOK_OUT = query("look_out")


class Outlook(Struct, frozen=True):
    """Instants are those of the first of each kind; None: there is none."""

    # A customer falls due.
    customer_at: Ms | None
    # A store's notification is processed, a purchase acknowledged, a purchase read again.
    notification_at: Ms | None
    acknowledgement_at: Ms | None
    check_at: Ms | None
    # A provider is asked about a checkout.
    checkout_at: Ms | None
    # Begins, or is begun again because its lease has run out.
    export_at: Ms | None
    bulk_grant_at: Ms | None
    mail_at: Ms | None
    # Some project has events or marks that are not in its lists.
    behind: bool
    # The lists of some project have not been started.
    unstarted: bool
    # The last key that any customer got.
    newest: int


async def look_out(connection: Connection) -> Outlook:
    row = await connection.fetchrow(_LOOK_OUT)
    assert row is not None, "sums always have a row"
    return Outlook(**dict(row.items()))
