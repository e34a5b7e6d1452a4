"""Reads V1 and V2 when the local copy cannot be trusted, and corrects the copy with the result."""

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from functools import partial
from typing import Any, Literal, TypeVar

import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.client import client_errors
from latchkey.client.client import Client
from latchkey.client.transport import RETRY_AFTER
from latchkey.consumer.consumer_settings import Settings, variable
from latchkey.consumer.event_intake import REREAD
from latchkey.consumer.rules.customer_snapshot import CustomerSnapshot, snapshot_of
from latchkey.consumer.rules.record import Entitlement, LocalCopy, Subscription, marked_stale
from latchkey.consumer.rules.sync import apply_snapshot
from latchkey.consumer.rules.timestamps import DAY, HOUR, Ms
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.consumer.storage.jobs import NewJob
from latchkey.wire.v2 import ActiveEntitlement, Attribute, Page

ENDS_SOON = 24 * HOUR
JUST_CANCELLED = 2 * DAY
TOO_OLD = HOUR


class VerifyReason(StrEnum):
    NO_RECORD = "no local record exists"
    ENDS_SOON = "it ends within 24 hours"
    BILLING_ISSUE = "there is a billing issue"
    JUST_CANCELLED = "it was cancelled less than 48 hours ago"
    TOO_OLD = "it was last updated more than an hour ago"


def reasons_to_verify(
    subscription: Subscription | None, now: Ms, *, only_if_still_ahead: bool = False
) -> tuple[VerifyReason, ...]:
    """Every condition that applies; none means the local copy answers. `only_if_still_ahead` is the specification's
    variant: an end in the past is not a reason to verify."""
    if subscription is None or not subscription.exists:
        return (VerifyReason.NO_RECORD,)
    found = []
    ends_at, cancelled_at, updated = subscription.expires_at, subscription.cancelled_at, subscription.last_updated
    if ends_at is not None and ends_at < now + ENDS_SOON and not (only_if_still_ahead and ends_at <= now):
        found.append(VerifyReason.ENDS_SOON)
    if subscription.billing_issue:
        found.append(VerifyReason.BILLING_ISSUE)
    if cancelled_at is not None and now - cancelled_at < JUST_CANCELLED:
        found.append(VerifyReason.JUST_CANCELLED)
    if updated is not None and now - updated > TOO_OLD:
        found.append(VerifyReason.TOO_OLD)
    return tuple(found)


log = structlog.get_logger()
T = TypeVar("T")

CUSTOMER_NOT_FOUND = "Customer not found"
UNKNOWN = "Whether the user has access is not known now"
# How often a read is repeated because an event arrived meanwhile.
_TRIES = 5
# After the service did not respond, or refused our key, users' requests do not call it again for this long.
_REST_MS = 5_000
# The service's status for an id that it never accepts, so no customer has it.
_UNACCEPTABLE = 400


class TooBusyError(client_errors.ClientError):
    """The user's events arrive faster than the service can be read; a later re-read will correct the copy."""


class View(Struct, frozen=True):
    """What is known about a user now, and where it comes from."""

    copy: LocalCopy | None
    source: Literal["billing", "database"]
    # The copy is judged by this moment: of the question, or of the request that V2 answered. What V2 answers may end on
    # its way here, and the renewal is not in that answer.
    at: Ms
    # Why the service had to be asked; empty if the local copy was good enough.
    reasons: tuple[VerifyReason, ...] = ()
    # The service had to be asked and could not be; the reason, without secrets.
    unverified: bool = False
    failure: str | None = None
    error: str | None = None

    @property
    def held(self) -> dict[str, Entitlement]:
        return self.copy.held(self.at) if self.copy is not None else {}

    def lets(self, entitlement_id: str) -> bool | None:
        """Whether the user has the entitlement; None if that is unknown. While the service cannot be asked, the local
        record answers, but it does not deny access while a re-read is pending."""
        held = entitlement_id in self.held
        return None if self.unknown and not held else held

    @property
    def unknown(self) -> bool:
        """There is no local record to use instead of the service."""
        return self.unverified and (self.copy is None or self.copy.subscription.stale)

    def age_ms(self, now: Ms) -> Ms | None:
        updated = self.copy.subscription.last_updated if self.copy is not None else None
        return max(0, now - updated) if updated is not None else None


class BillingService:
    def __init__(self, store: ConsumerStorage, client: Client, settings: Settings, now: Callable[[], Ms]) -> None:
        self.client = client
        self._store = store
        self._settings = settings
        self._now = now
        self._under_way: dict[tuple[str, bool], asyncio.Task[View | None]] = {}
        # Until then users' requests do not call the service, and why.
        self._rest_until: Ms = 0
        self._rest_reason = ""
        # Until then no request calls it: its rate limit is used up.
        self._limited_until: Ms = 0

    async def view(self, app_user_id: str, *, details: bool = False) -> View:
        """The local copy if it can be trusted, else V2; the local copy again if V2 cannot be asked."""
        copy = await self.local(app_user_id)
        known = copy.subscription if copy is not None else None
        now = self._now()
        reasons = reasons_to_verify(known, now, only_if_still_ahead=self._settings.verify_only_if_still_ahead)
        if not reasons and known is not None and not known.stale:
            return View(copy, "database", now)
        if now < self._rest_until:
            return View(copy, "database", now, reasons, unverified=True, failure=self._rest_reason)
        try:
            fresh = await self._once(app_user_id, details)
        except client_errors.ClientError as error:
            failure = failure_text(error)
            self._rest(error, failure)
            log.warning("could not verify a user with the service", error=failure, status=error.status)
            return View(copy, "database", now, reasons, unverified=True, failure=failure)
        if fresh is None:
            return View(await self.local(app_user_id), "database", now, reasons, error=CUSTOMER_NOT_FOUND)
        return replace(fresh, reasons=reasons)

    async def local(self, app_user_id: str) -> LocalCopy | None:
        async with self._store.database.reading() as connection:
            return await self._store.copies.find(connection, app_user_id)

    async def refresh(self, app_user_id: str, *, details: bool, deadline: float) -> View | None:
        """Read the user and overwrite the local copy; None if the service does not know the user."""
        for _ in range(_TRIES):
            before = await self.local(app_user_id)
            asked_at = self._now()
            try:
                reading = await self.read(app_user_id, details=details, deadline=deadline)
            except client_errors.NotFound:
                await self._store.database.write(lambda connection: self._gone(connection, app_user_id))
                return None
            stored = await self._store.database.write(
                partial(self._overwrite, asked=app_user_id, before=before, reading=reading, asked_at=asked_at)
            )
            if stored is not None:
                return View(stored, "billing", asked_at)
        raise TooBusyError("The user's record changed again and again while the service was being read.")

    async def read(self, app_user_id: str, *, details: bool, deadline: float) -> CustomerSnapshot:
        """V2, and also V1 if the details are needed."""
        try:
            return await self._asked(self._read(app_user_id, details, deadline))
        except client_errors.UnusableId as error:
            raise client_errors.NotFound(404, str(error)) from error
        except client_errors.ApiError as error:
            if error.status == _UNACCEPTABLE and error.message:
                raise client_errors.NotFound(404, error.message) from error
            raise

    async def events(self, after: str | None, deadline: float) -> Page[Raw]:
        return await self._asked(self.client.event_page(after=after, deadline=deadline))

    async def _asked(self, asking: Coroutine[Any, Any, T]) -> T:
        """The service's response. After a 429 all requests wait, because they share the key's rate limit."""
        left = self._limited_until - self._now()
        if left > 0:
            asking.close()
            raise client_errors.RateLimited(429, "The service's rate limit is used up.", retry_after=left / 1000)
        try:
            return await asking
        except client_errors.RateLimited as error:
            wait = error.retry_after if error.retry_after is not None else RETRY_AFTER
            self._limited_until = max(self._limited_until, self._now() + round(wait * 1000))
            raise

    async def _read(self, app_user_id: str, details: bool, deadline: float) -> CustomerSnapshot:
        client = self.client
        customer, sequence = await client.customer_as_of(app_user_id, deadline=deadline)
        # After V2 has answered, because V1 creates a user that it does not know.
        subscriber = (await client.subscriber(app_user_id, deadline=deadline)).subscriber if details else None
        active, noted = customer.active_entitlements, customer.attributes
        return snapshot_of(
            customer,
            [*active.items, *await client.rest(active, ActiveEntitlement, deadline=deadline)],
            [*noted.items, *await client.rest(noted, Attribute, deadline=deadline)],
            subscriber,
            sequence,
            now=self._now(),
        )

    async def _once(self, app_user_id: str, details: bool) -> View | None:
        """Concurrent requests for one user share one call to the service."""
        key = app_user_id, details
        task = self._under_way.get(key)
        if task is None:
            asking = self.refresh(app_user_id, details=details, deadline=self._settings.verify_timeout_ms / 1000)
            task = self._under_way[key] = asyncio.create_task(asking)
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        # One caller who disconnects must not cancel the response for the others.
        return await asyncio.shield(task)

    async def _overwrite(
        self, connection: AsyncConnection, asked: str, before: LocalCopy | None, reading: CustomerSnapshot, asked_at: Ms
    ) -> LocalCopy | None:
        """The copy after the response; None if the service must be read again, because an event arrived meanwhile."""
        copies, owner = self._store.copies, reading.customer_id
        seen = before.subscription if before is not None else None
        locked = await copies.lock(connection, {asked})
        known = locked.copies[locked.canonical[asked]].subscription
        if known.exists if seen is None else (known.app_user_id, known.revision) != (seen.app_user_id, seen.revision):
            # Also if the id was merged into another customer meanwhile: the answer must not undo that.
            return None
        if asked == owner:
            await copies.remove_alias(connection, asked)
        else:
            await copies.name(connection, owner, {asked})
        current = (await copies.lock(connection, {owner})).copies[owner]
        if current.subscription.exists and (seen is None or seen.app_user_id != owner):
            # The id leads to this copy now, which may be older than the answer: not trusted until it is read again.
            await copies.save(connection, [(current, marked_stale(current))])
            await self._store.jobs.add(connection, [NewJob(REREAD, owner)], self._now())
            return None
        after = apply_snapshot(current, reading, asked_at)
        await copies.save(connection, [(current, after)])
        return after

    async def _gone(self, connection: AsyncConnection, asked: str) -> None:
        """The service does not know the user. The setting decides whether the copy is kept or ends. If the user comes
        back, its sequence starts from one again; which event is newer is then told by their timestamps alone."""
        locked = await self._store.copies.lock(connection, {asked})
        owner = locked.canonical[asked]
        current = locked.copies[owner]
        if not current.subscription.exists:
            return
        if owner != asked:
            # The customer whose alias it was may be there still, or again: their own id tells that.
            if self._settings.missing_customer == "inactive":
                await self._store.copies.remove_alias(connection, asked)
            return
        after = current
        if self._settings.missing_customer == "inactive":
            after = apply_snapshot(current, CustomerSnapshot(owner, {}, {}), self._now())
        reset = replace(after.subscription, stale=False, last_sequence=None, read_sequence=None)
        await self._store.copies.save(connection, [(current, replace(after, subscription=reset))])

    def _rest(self, error: client_errors.ClientError, failure: str) -> None:
        """If the next request would fail the same way, users' requests do not wait for it."""
        if isinstance(error, client_errors.RateLimited):
            self._rest_until, self._rest_reason = self._limited_until, failure
        elif is_away(error):
            self._rest_until, self._rest_reason = self._now() + _REST_MS, failure


def is_away(error: client_errors.ClientError) -> bool:
    """Whether the next request would probably fail the same way, whoever it is about."""
    away = client_errors.RateLimited | client_errors.Unreachable | client_errors.BadAnswer
    return isinstance(error, away) or error.status in (401, 403, 404) or (error.status or 0) >= 500


# No customer has this id. The service says so only after accepting key and project.
NOBODY = "latchkey-connection-check"


class Checked(Struct, frozen=True):
    problem: str | None = None
    # True if the settings are wrong, so that waiting does not help. False if the service may only be unreachable.
    certain: bool = False


async def check_connection(client: Client, deadline: float) -> Checked:
    """Whether the service can be reached, has a trusted certificate, and accepts our key for the project."""
    try:
        await client.customer(NOBODY, deadline=deadline)
    except client_errors.NotFound:
        return Checked()
    except client_errors.ClientError as error:
        certain = isinstance(error, client_errors.Untrusted) or error.status in (401, 403)
        return Checked(failure_text(error), certain)
    return Checked()


def failure_text(error: client_errors.ClientError) -> str:
    """Why the service could not be asked, and which setting to check."""
    match error:
        case client_errors.Untrusted():
            return f"The billing service's certificate is not trusted. Check {variable('service_ca')}."
        case client_errors.Unreachable():
            return f"The billing service cannot be reached. Check {variable('service_url')} and the network."
        case client_errors.RateLimited():
            return "The billing service is asked too often with this key. It will be asked again later."
        case client_errors.ApiError(status=401):
            return f"The billing service refused the API key (401). Check {variable('api_key')}."
        case client_errors.ApiError(status=403):
            names = f"{variable('api_key')} and {variable('project_id')}"
            return f"The API key may not read this project (403). Check {names}."
        case client_errors.ApiError() if error.status != 404:
            return f"The billing service answered {error.status}."
        case client_errors.ApiError() | client_errors.BadAnswer():
            return f"What answers at {variable('service_url')} is not the billing service."
        case _:
            return "The billing service could not be read."
