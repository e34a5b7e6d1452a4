"""Creating and changing webhooks: checked before anything is stored, shown with counts of their deliveries. Secrets are
encrypted before they are stored, and shown only when they are created. The log of deliveries: what was sent to a
webhook, when, what the receiver answered; and what needs attention."""

import base64
import os
import re
import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Any, TypeVar

from latchkey.database.pool import Connection, Database
from latchkey.database.sealing import Sealer
from latchkey.database.transient_errors import transaction
from latchkey.domain.events.customer_event import Dialect
from latchkey.domain.instants import Ms
from latchkey.domain.outgoing_address import Network, NotAllowed, refusal, target
from latchkey.domain.problem import ProblemKind, ProjectProblem, isolated
from latchkey.domain.refusal import Checks, Invalid, NotFound, Refusal, found
from latchkey.domain.retry import SCHEDULE
from latchkey.engine.storage import state
from latchkey.settings import Settings
from latchkey.subjects.mail.usecases import NO_MAIL
from latchkey.subjects.projects.usecases import load_app
from latchkey.subjects.webhooks import rules
from latchkey.subjects.webhooks.delivery.destination import DestinationSetup, compiled
from latchkey.subjects.webhooks.delivery.queue import requeue_runs
from latchkey.subjects.webhooks.delivery.sending.mailbox import SCHEME, Mailbox, mailbox_of
from latchkey.subjects.webhooks.storage import delivery_rows, lanes, webhook_rows
from latchkey.subjects.webhooks.storage.delivery_rows import DeliveryCursor, FailedAttempt
from latchkey.subjects.webhooks.usecases import destination_settings

LONGEST_URL = 2048
LONGEST_HEADER = 4096
# Retries: how many at most, and how far apart.
MOST_RETRIES = 50
LONGEST_WAIT_SECONDS = 7 * 24 * 3600
LARGEST_IN_FLIGHT = 1000
OVERLAP_SECONDS = 24 * 3600
LONGEST_OVERLAP_SECONDS = 30 * 24 * 3600
# Visible ASCII characters, with spaces between them.
_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?")
T = TypeVar("T")
_OF_A_PRESET = frozenset({"authorization_header", "dialect"})
_LETTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Registry:
    """A project's webhooks, and the rules for them."""

    database: Database
    sealer: Sealer
    # Private networks that webhooks may point to.
    allowed: Sequence[Network] = ()
    # None: destinations that are a mailbox are refused.
    mailbox: Mailbox | None = None

    async def create(self, project_id: str, given: Mapping[str, Any], now: Ms) -> rules.Webhook:
        """A new webhook. The caller shows its secret once, from this result."""
        if ("url" in given) == ("destination" in given):
            raise Invalid("Give either the url of a receiver, or a destination.", param="url")
        return await self.add(project_id, rules.Setup(**await self._checked(project_id, given)), now)

    async def add(self, project_id: str, setup: rules.Setup, now: Ms) -> rules.Webhook:
        """One that is not enabled is paused: it collects events and sends none."""
        id = "wh_" + "".join(secrets.choice(_LETTERS) for _ in range(16))
        added = project_id, id, replace(setup, enabled=True), new_secret(), now
        async with transaction(self.database) as connection:
            webhook = await webhook_rows.create(connection, self.sealer, *added)
            if not setup.enabled:
                webhook = replace(webhook, health=rules.WebhookHealth(paused_at=now))
                await webhook_rows.save_health(connection, {webhook.key: webhook.health})
        return webhook

    async def load(self, project_id: str, id: str) -> rules.Webhook:
        return await self._counted(_found(await webhook_rows.load(self.database, self.sealer, project_id, id), id))

    async def page(self, project_id: str, after: str | None, limit: int | None) -> list[rules.Webhook]:
        """Oldest first."""
        if after is not None:
            made = await webhook_rows.was_made(self.database, project_id, after)
            found(made, f"There is no webhook {after!r} to start after.", "starting_after")
        page = await webhook_rows.page(self.database, self.sealer, project_id, after, limit)
        counts = await webhook_rows.delivery_counts(self.database, [webhook.key for webhook in page])
        return [replace(webhook, delivery_counts=counts[webhook.key]) for webhook in page]

    async def update(self, project_id: str, id: str, given: Mapping[str, Any], now: Ms) -> rules.Webhook:
        """Changes what is given."""
        before = _found(await webhook_rows.load(self.database, self.sealer, project_id, id), id)
        if before.destination is None and "destination" in given:
            raise Refusal("This webhook has an address of its own. Create another one.", param="destination")
        if before.destination is not None and (wrong := given.keys() & {"url", *_OF_A_PRESET}):
            raise Refusal("The address and the body of a destination come from its preset.", param=min(wrong))
        changes = await self._checked(project_id, given, before.destination)
        return await self._counted(await self.change(project_id, id, now, **changes))

    async def change(self, project_id: str, id: str, now: Ms, **changes: Any) -> rules.Webhook:
        """Changes these settings. `enabled` pauses and resumes: a paused webhook collects events."""
        enabled = changes.pop("enabled", None)
        async with transaction(self.database) as connection:
            before = _found(await webhook_rows.lock(connection, self.sealer, project_id, id), id)
            if before.authorization is not None and "authorization" not in changes:
                destination_settings.require_same_host(before.url, changes.get("url"), "authorization_header")
            after = await webhook_rows.update(connection, self.sealer, replace(before, **changes), now)
            health = before.health
            if _address(after) != _address(before):
                health = rules.corrected(health, now)
            if enabled is False:
                health = replace(health, paused_at=health.paused_at or now)
            # Resuming resets the failure count. A client that sends every field each time must not do that by accident.
            elif enabled and before.health.paused_at is not None:
                health = rules.resumed(health)
            if health != before.health:
                await webhook_rows.save_health(connection, {before.key: health})
            await lanes.wake(connection, before.key)
        return replace(after, health=health)

    async def rotate(self, project_id: str, id: str, overlap_seconds: int, now: Ms) -> rules.Webhook:
        """A new secret, shown once from this result. The old secret signs too until the overlap ends."""
        until = now + overlap_seconds * 1000
        async with transaction(self.database) as connection:
            _found(await webhook_rows.lock(connection, self.sealer, project_id, id), id)
            rotated = await webhook_rows.rotate_secret(
                connection, self.sealer, project_id, id, new_secret(), until, now
            )
        return await self._counted(rotated)

    async def delete(self, project_id: str, id: str, now: Ms) -> None:
        if not await webhook_rows.delete(self.database, project_id, id, now):
            raise rules.missing_webhook(id)

    async def _counted(self, webhook: rules.Webhook) -> rules.Webhook:
        counts = await webhook_rows.delivery_counts(self.database, [webhook.key])
        return replace(webhook, delivery_counts=counts[webhook.key])

    async def _checked(self, project_id: str, given: Mapping[str, Any], before: str | None = None) -> dict[str, Any]:
        """The fields of `Setup` from the fields of the API. `before`: the stored destination."""
        fields = checked_fields(given, self.allowed, before)
        if fields.get("url", "").startswith(SCHEME):
            if self.mailbox is None:
                raise Refusal(NO_MAIL, param="destination.preset")
            await self.mailbox.check(project_id, fields["url"].removeprefix(SCHEME))
        if fields.get("app_id") is not None:
            await load_app(self.database, project_id, fields["app_id"])
        return fields


def checked_fields(
    given: Mapping[str, Any], allowed: Sequence[Network] = (), before: str | None = None
) -> dict[str, Any]:
    """The fields of `Setup` from the fields of the API, as far as no database has to be asked."""
    fields = dict(given)
    with Checks() as check:
        if (destination := fields.pop("destination", None)) is not None:
            if wrong := fields.keys() & _OF_A_PRESET:
                raise Refusal("The headers and the body of a destination come from its preset.", param=min(wrong))
            fields["destination"] = destination_settings.checked(DestinationSetup(**destination), before)
            made = compiled(fields["destination"])
            if not made.url.startswith(SCHEME):
                checked_url(made.url, allowed)
            fields["url"] = made.shown_url
        elif "url" in fields:
            check(checked_url, fields["url"], allowed)
        if "authorization_header" in fields:
            fields["authorization"] = check(checked_authorization, fields.pop("authorization_header"))
        if "event_types" in fields:
            fields["event_types"] = tuple(dict.fromkeys(fields["event_types"] or ()))
        if "retry_schedule_seconds" in fields:
            schedule = fields.pop("retry_schedule_seconds")
            fields["retry_seconds"] = SCHEDULE if schedule is None else tuple(schedule)
        if fields.get("in_flight_limit", 0) is None:
            fields["in_flight_limit"] = rules.IN_FLIGHT
        if "dialect" in fields:
            # In capitals too, as the vendor's own interface writes such words. None is the default.
            fields["dialect"] = (fields["dialect"] or Dialect.LATCHKEY).lower()
            if fields["dialect"] not in set(Dialect):
                raise Invalid(f"A dialect is one of {', '.join(Dialect)}.", param="dialect")
    return fields


def registry_of(database: Database, settings: Settings) -> Registry:
    allowed, mailbox = settings.webhook_allow_networks, mailbox_of(database, settings)
    return Registry(database, Sealer(settings.secret_key), allowed, mailbox)


def checked_url(url: str, allowed: Sequence[Network] = ()) -> str:
    """Refuses what is wrong without a DNS lookup. Each attempt checks the resolved address again."""
    if not url or len(url) > LONGEST_URL:
        long = f"The URL has at most {LONGEST_URL:,} characters."
        raise Invalid(long if url else "The URL is missing.", param="url")
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


def checked_authorization(value: str | None) -> str | None:
    """Refuses what an HTTP header cannot carry. The error never repeats the value, which is a secret."""
    if value is None:
        return None
    if len(value) > LONGEST_HEADER or not _HEADER.fullmatch(value):
        raise Invalid(
            f"authorization_header is the whole value, such as 'Bearer <secret>': 1 to {LONGEST_HEADER} visible ASCII "
            "characters, with no space around them.",
            param="authorization_header",
        )
    return value


def _address(webhook: rules.Webhook) -> tuple[str | None, ...]:
    return webhook.url, webhook.authorization, webhook.destination


def new_secret() -> str:
    return rules.SECRET_PREFIX + base64.b64encode(os.urandom(24)).decode()


def _found(webhook: T | None, id: str) -> T:
    if webhook is None:
        raise rules.missing_webhook(id)
    return webhook


# How many deliveries one page examines at most: about a tenth of a second.
EXAMINED = 20_000


async def page_of_deliveries(
    database: Database, project_id: str, webhook_id: str, chosen: rules.DeliveryFilter, *, after: str | None, limit: int
) -> rules.DeliveryPage:
    """Newest first."""
    filtered = chosen.status is not None or chosen.type is not None or chosen.answered is not None
    async with database.acquire() as connection:
        key = await _webhook(connection, project_id, webhook_id)
        before = delivery_rows.END
        if after is not None:
            place = await delivery_rows.place_of(connection, project_id, key, after)
            before = found(place, f"There is no delivery {after!r} to start after.", "starting_after")
        # The query has one upper bound, because an index scan starts at one bound.
        if chosen.until is not None:
            before = min(before, DeliveryCursor(chosen.until, 0, 0))
        if chosen.customer_id is None:
            examined = EXAMINED if filtered else limit + 1
            page = await delivery_rows.page(connection, webhook_id, key, before, chosen, limit + 1, examined)
        else:
            known = await state.key_of(connection, project_id, chosen.customer_id)
            customer = found(known, f"There is no customer {chosen.customer_id!r}.", "customer_id")
            asked = project_id, customer, webhook_id, key, before, chosen, limit + 1
            page = rules.DeliveryPage(await delivery_rows.page_of_customer(connection, *asked), None)
    if len(page.deliveries) > limit:
        return rules.DeliveryPage(page.deliveries[:limit], page.deliveries[limit - 1].id)
    return page


async def load_delivery(database: Database, project_id: str, webhook_id: str, event_id: str) -> rules.Detail:
    async with database.acquire() as connection:
        key = await _webhook(connection, project_id, webhook_id)
        detail = await delivery_rows.load(connection, project_id, webhook_id, key, event_id)
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
    return _found(await delivery_rows.webhook_key(connection, project_id, webhook_id), webhook_id)


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


async def problems_of(database: Database, project_id: str) -> list[ProjectProblem]:
    """Excludes webhooks paused by hand."""
    return [
        ProjectProblem(
            id=f"webhook/{id}",
            kind=ProblemKind.WEBHOOK,
            title=f"The webhook {isolated(name)} fails.",
            words=rules.failure_in_words(health),
            path=f"webhooks/{id}",
            link="Open the webhook",
            is_urgent=health.paused_at is not None,
        )
        for id, name, health in await webhook_rows.healths(database, project_id)
        if health.failing_since is not None and (health.paused_at is None or rules.paused_by_itself(health))
    ][:MOST]


announce = webhook_rows.announce
has_delivered = webhook_rows.has_delivered
# For an erased customer: removes what the log of deliveries says of these events.
forget = delivery_rows.forget
