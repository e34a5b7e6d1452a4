"""The log of deliveries: what was sent to a webhook, when, what the receiver answered; and what needs attention."""

from dataclasses import dataclass

from latchkey.database.pool import Connection, Database
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound, found
from latchkey.engine.storage import state
from latchkey.subjects.webhooks import rules
from latchkey.subjects.webhooks.delivery.queue import requeue_runs
from latchkey.subjects.webhooks.storage import delivery_rows, webhook_rows
from latchkey.subjects.webhooks.storage.delivery_rows import DeliveryCursor, FailedAttempt

# How many deliveries one page examines at most: about a tenth of a second.
EXAMINED = 20_000


async def page_of_deliveries(
    database: Database, project_id: str, webhook_id: str, chosen: rules.DeliveryFilter, *, after: str | None, limit: int
) -> rules.DeliveryPage:
    """Newest first."""
    filtered = chosen.status is not None or chosen.type is not None or chosen.answered is not None
    async with database.acquire() as connection:
        key = await _webhook(connection, project_id, webhook_id)
        before = await _place(connection, project_id, key, after)
        # The query has one upper bound, because an index scan starts at one bound.
        if chosen.until is not None:
            before = min(before, DeliveryCursor(chosen.until, 0, 0))
        if chosen.customer_id is None:
            examined = EXAMINED if filtered else limit + 1
            page = await delivery_rows.page(connection, key, before, chosen, limit + 1, examined)
        else:
            known = await state.key_of(connection, project_id, chosen.customer_id)
            customer = found(known, f"There is no customer {chosen.customer_id!r}.", "customer_id")
            asked = project_id, customer, key, before, chosen, limit + 1
            page = rules.DeliveryPage(await delivery_rows.page_of_customer(connection, *asked), None)
    if len(page.deliveries) > limit:
        return rules.DeliveryPage(page.deliveries[:limit], page.deliveries[limit - 1].event_id)
    return page


async def load_delivery(database: Database, project_id: str, webhook_id: str, event_id: str) -> rules.Detail:
    async with database.acquire() as connection:
        key = await _webhook(connection, project_id, webhook_id)
        detail = await delivery_rows.load(connection, project_id, key, event_id)
    return found(detail, f"Webhook {webhook_id!r} has no delivery {event_id!r}.", "delivery_id")


async def resend(database: Database, project_id: str, webhook_id: str, event_id: str, now: Ms) -> rules.Detail:
    """Send it again, at once."""
    # Raises the error that says whether the webhook or the delivery is missing.
    await load_delivery(database, project_id, webhook_id, event_id)
    await requeue_runs.resend(database, project_id, webhook_id, event_id, now)
    return await load_delivery(database, project_id, webhook_id, event_id)


async def last_failed_attempt(database: Database, project_id: str, webhook_id: str) -> FailedAttempt | None:
    """Why a webhook fails: its newest failed attempt."""
    async with database.acquire() as connection:
        return await delivery_rows.last_failed_attempt(connection, await _webhook(connection, project_id, webhook_id))


async def _webhook(connection: Connection, project_id: str, webhook_id: str) -> int:
    key = await delivery_rows.webhook_key(connection, project_id, webhook_id)
    if key is None:
        raise rules.missing_webhook(webhook_id)
    return key


async def _place(connection: Connection, project_id: str, key: int, after: str | None) -> DeliveryCursor:
    if after is None:
        return delivery_rows.END
    place = await delivery_rows.place_of(connection, project_id, key, after)
    return found(place, f"There is no delivery {after!r} to start after.", "starting_after")


async def page_of_operational_events(
    database: Database, project_id: str, after: str | None, limit: int, *, webhook_id: str | None = None
) -> list[rules.OperationalEvent]:
    """Newest first."""
    async with database.acquire() as connection:
        if after is not None and not await webhook_rows.operational_events(
            connection, project_id, None, 1, after, None
        ):
            raise NotFound(f"There is no operational event {after!r} to start after.", param="starting_after")
        return await webhook_rows.operational_events(connection, project_id, after, limit, None, webhook_id)


# The most that a page shows; the list of webhooks shows all.
MOST = 20


@dataclass(frozen=True, slots=True)
class FailingWebhook:
    webhook_id: str
    name: str
    failing_since: Ms
    # None while the service still tries to deliver.
    paused_at: Ms | None


async def troubles_of(database: Database, project_id: str) -> list[FailingWebhook]:
    """Excludes webhooks paused by hand."""
    return [
        FailingWebhook(id, name, health.failing_since, health.paused_at)
        for id, name, health in await webhook_rows.healths(database, project_id)
        if health.failing_since is not None and (health.paused_at is None or rules.paused_by_itself(health))
    ][:MOST]


announce = webhook_rows.announce
has_delivered = webhook_rows.has_delivered
