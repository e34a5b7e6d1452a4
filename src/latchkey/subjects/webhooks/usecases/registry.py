"""Creating and changing webhooks: checked before anything is stored, shown with counts of their deliveries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from latchkey.database.pool import Database
from latchkey.domain.events.customer_event import Dialect
from latchkey.domain.instants import Ms
from latchkey.domain.outgoing_address import Network, NotAllowed, refusal, target
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.domain.retry import SCHEDULE
from latchkey.subjects.projects.usecases import load_app
from latchkey.subjects.webhooks.delivery.webhook import IN_FLIGHT, Setup, Webhook, Webhooks
from latchkey.subjects.webhooks.storage import webhook_rows
from latchkey.subjects.webhooks.storage.webhook_rows import DeliveryCounts

LONGEST_URL = 2048
LONGEST_HEADER = 4096
# Retries: how many at most, and how far apart.
MOST_RETRIES = 50
LONGEST_WAIT_SECONDS = 7 * 24 * 3600
LARGEST_IN_FLIGHT = 1000
OVERLAP_SECONDS = 24 * 3600
LONGEST_OVERLAP_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class WebhookSummary:
    webhook: Webhook
    delivery_counts: DeliveryCounts


@dataclass(frozen=True, slots=True)
class Registry:
    """A project's webhooks, and the rules for them."""

    database: Database
    webhooks: Webhooks
    # Private networks that webhooks may point to.
    allowed: Sequence[Network] = ()

    async def create(self, project_id: str, given: Mapping[str, Any], now: Ms) -> WebhookSummary:
        """A new webhook. The caller shows its secret once, from this result."""
        setup = Setup(**await self._checked(project_id, given))
        if setup.enabled:
            return WebhookSummary(await self.webhooks.create(project_id, setup, now), DeliveryCounts())
        # Created disabled and paused before it is enabled: it collects events and sends none.
        made = await self.webhooks.create(project_id, setup, now)
        await self.webhooks.pause(project_id, made.id, now)
        collecting = await self.webhooks.update(project_id, made.id, now, enabled=True)
        return WebhookSummary(_found(collecting, made.id), DeliveryCounts())

    async def load(self, project_id: str, id: str) -> WebhookSummary:
        webhook = _found(await self.webhooks.load(project_id, id), id)
        return WebhookSummary(webhook, (await self._vitals([webhook]))[webhook.key])

    async def page(self, project_id: str, after: str | None, limit: int) -> list[WebhookSummary]:
        """Oldest first."""
        async with self.database.acquire() as connection:
            if after is not None and not await webhook_rows.was_made(connection, project_id, after):
                raise NotFound(f"There is no webhook {after!r} to start after.", param="starting_after")
        found = await self.webhooks.page(project_id, after, limit)
        delivery_counts = await self._vitals(found)
        return [WebhookSummary(one, delivery_counts[one.key]) for one in found]

    async def update(self, project_id: str, id: str, given: Mapping[str, Any], now: Ms) -> WebhookSummary:
        """Changes what is given. Pausing comes before every other change and resuming after it, so that nothing is sent
        while only a part is changed."""
        before = _found(await self.webhooks.load(project_id, id), id)
        changes = await self._checked(project_id, given)
        enabled = changes.pop("enabled", None)
        if enabled is False:
            await self.webhooks.pause(project_id, id, now)
        elif enabled:
            changes["enabled"] = True
        await self.webhooks.update(project_id, id, now, **changes)
        # Resuming resets the failure count. A client that sends every field each time must not do that by accident.
        if enabled and before.health.paused_at is not None:
            await self.webhooks.resume(project_id, id)
        return await self.load(project_id, id)

    async def rotate(self, project_id: str, id: str, overlap_seconds: int, now: Ms) -> WebhookSummary:
        """A new secret, shown once from this result. The old secret signs too until the overlap ends."""
        rotated = _found(await self.webhooks.rotate_secret(project_id, id, overlap_seconds * 1000, now), id)
        return WebhookSummary(rotated, (await self._vitals([rotated]))[rotated.key])

    async def delete(self, project_id: str, id: str, now: Ms) -> None:
        if not await self.webhooks.delete(project_id, id, now):
            raise _missing(id)

    async def _checked(self, project_id: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of `Setup` from the fields of the API."""
        fields = dict(given)
        if "url" in fields:
            checked_url(fields["url"], self.allowed)
        if "authorization_header" in fields:
            fields["authorization"] = checked_authorization(fields.pop("authorization_header"))
        if "event_types" in fields:
            fields["event_types"] = tuple(dict.fromkeys(fields["event_types"]))
        if "retry_schedule_seconds" in fields:
            schedule = fields.pop("retry_schedule_seconds")
            fields["retry_seconds"] = SCHEDULE if schedule is None else tuple(schedule)
        if fields.get("in_flight_limit", 0) is None:
            fields["in_flight_limit"] = IN_FLIGHT
        if "dialect" in fields:
            fields["dialect"] = checked_dialect(fields["dialect"])
        if fields.get("app_id") is not None:
            await load_app(self.database, project_id, fields["app_id"])
        return fields

    async def _vitals(self, webhooks: Sequence[Webhook]) -> dict[int, DeliveryCounts]:
        if not webhooks:
            return {}
        async with self.database.acquire() as connection:
            return await webhook_rows.delivery_counts(connection, [one.key for one in webhooks])


def checked_url(url: str, allowed: Sequence[Network] = ()) -> str:
    """Refuses what is wrong without a DNS lookup. Each attempt checks the resolved address again."""
    try:
        where = target(url)
    except NotAllowed as error:
        raise Invalid(str(error), param="url") from None
    literal = where.literal
    # RFC 6761: these names resolve to the loopback address.
    if where.host.removesuffix(".") == "localhost" or where.host.removesuffix(".").endswith(".localhost"):
        literal = IPv4Address("127.0.0.1")
    why = refusal(literal, allowed) if literal is not None else None
    if why is not None:
        raise Invalid(
            f"address not allowed: {where.host} is not on the public Internet ({why}). "
            "The operator can allow its network with LATCHKEY_WEBHOOK_ALLOW_NETWORKS.",
            param="url",
        )
    return url


def checked_dialect(name: str | None) -> str:
    """In capitals too, as the vendor's own interface writes such words. None is the default."""
    if name is None:
        return Dialect.LATCHKEY
    try:
        return Dialect(name.lower())
    except ValueError:
        raise Invalid(f"A dialect is one of {', '.join(Dialect)}.", param="dialect") from None


def checked_authorization(value: str | None) -> str | None:
    """Refuses what an HTTP header cannot carry. The error never repeats the value, which is a secret."""
    if value is None:
        return None
    if (
        not value
        or len(value) > LONGEST_HEADER
        or value != value.strip()
        or not (value.isascii() and value.isprintable())
    ):
        raise Invalid(
            f"authorization_header is the whole value, such as 'Bearer <secret>': 1 to {LONGEST_HEADER} visible ASCII "
            "characters, with no space around them.",
            param="authorization_header",
        )
    return value


def _found(webhook: Webhook | None, id: str) -> Webhook:
    if webhook is None:
        raise _missing(id)
    return webhook


def _missing(id: str) -> NotFound:
    return NotFound(f"There is no webhook {id!r} in this project.", param="webhook_id")
