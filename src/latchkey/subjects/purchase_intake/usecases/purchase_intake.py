"""Takes in what a store said of purchases: to whom each belongs, what it means beside what is known, and when to ask
the store again."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from msgspec import Struct, structs

from latchkey.database.errors import CollisionError
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Attribute, Customer, LastSeen, with_shown_attributes
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import SECOND, Ms
from latchkey.domain.purchases.presented import presented
from latchkey.domain.purchases.purchase import MoneyBack, Purchase
from latchkey.domain.purchases.reconciliation import as_long_as_sold, lacks_periods, settle, settle_purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import OwnedByAnother, Refusal
from latchkey.domain.stores.store import STORES
from latchkey.domain.stores.waits import ACKNOWLEDGED_AFTER, RECEIPTS_WITHIN, SIGNED_LONG_AGO, check_at
from latchkey.domain.user_id import is_digest, problem_with, spellings
from latchkey.engine.changes import Change, Changes, Committed, Situation
from latchkey.engine.storage import records
from latchkey.engine.storage import store_handles as handles
from latchkey.engine.storage.store_handles import Handle
from latchkey.stores.adapter import Adapter, ConnectedApp, GivenBack, SeenPurchase, StoreReading
from latchkey.stores.errors import NoAnswer, StoreDown, StoreError
from latchkey.subjects.customers.usecases.identities import claimed, list_aliases, restore, turn
from latchkey.subjects.purchase_intake import rules
from latchkey.subjects.purchase_intake.storage import journal_rows
from latchkey.subjects.purchase_intake.usecases.batched_lookups import BatchedLookups
from latchkey.wire.event import Event

# How many replaced purchases are followed back. Longer chains exist only in a store that lies.
_LONGEST_CHAIN = 20
# How long a worker has an entry of the journal. Extended while it lives, so that those of a dead one do not wait long.
LEASE: Ms = 15 * SECOND
RECEIPTS_FIRST = "Receipts that phones have shown are processed first."


class Incomplete(Refusal):
    """Periods before the one at hand are missing, so why it began cannot be told. The store knows them."""


class ReceiptsFirst(Refusal):
    """A purchase that is new here waits for receipts that could not be checked when they were shown: one of them may
    say whose it is."""


def receipts_since(entry: rules.JournalEntry, now: Ms) -> Ms | None:
    """The receipts that a notification of a new purchase waits for: once for any, and again for those that came less
    than two minutes before it, until it is two minutes old itself."""
    if entry.message != RECEIPTS_FIRST:
        return 0
    return entry.received_at - RECEIPTS_WITHIN if now - entry.received_at < RECEIPTS_WITHIN else None


class OwnerErased(Refusal):
    """The customer was deleted. Only whoever shows the purchase anew gets it."""


class IntakeResult(Struct, frozen=True):
    committed: Committed
    # By product, for one-time purchases: whether the app should use them up.
    consume: Mapping[str, bool] = {}


class Taker(Struct, frozen=True):
    changes: Changes
    desk: BatchedLookups
    adapter: Adapter
    app: ConnectedApp
    # The customer whose phone sent the receipt. None: a store's notification.
    shown_by: str | None = None
    # What that phone has shown.
    token: str | None = None
    attributes: dict[str, Attribute] | None = None
    # Whether showing it moves a purchase that somebody else owns, as the project says.
    restores: bool = True
    # When it was shown, if that was before now: whoever owns the purchase and has shown receipts since then keeps it.
    shown_at: Ms | None = None
    # What the app says that it showed: the offering, and the products that the receipt is about.
    offering: str | None = None
    product_ids: tuple[str, ...] = ()
    # Which version of the app the customer had first, if the receipt says so.
    app_version: str | None = None
    # Where the customer was seen.
    seen: LastSeen | None = None
    # A purchase that is new here waits for receipts that came since then. None: it waits for none.
    receipts_since: Ms | None = None

    async def take(self, reading: StoreReading, read_at: Ms) -> tuple[IntakeResult, ...]:
        """Every purchase of the reading that is this app's. Doing it again does no harm. What stays with another
        customer is passed over: a receipt may hold all that a phone's store account has bought. It is refused if
        nothing else is in it."""
        taken, refused = [], None
        for seen in reading.seen:
            try:
                if not await self._of_another_app(seen):
                    taken.append(await self._take(seen, read_at, 0))
            except OwnedByAnother as error:
                refused = error
        refunded = [await self._give_back(back) for back in reading.given_back]
        if refused is not None and not taken:
            # What could not be read may be the customer's.
            raise refused if reading.unread is None else StoreDown(reading.unread.message)
        return (*taken, *(result for result in refunded if result is not None))

    async def _of_another_app(self, seen: SeenPurchase) -> bool:
        """Whether another app of the project takes this purchase in: one account of the store is connected to both."""
        project, store = self.app.project_id, STORES[self.app.store]
        if seen.sold_by is not None and seen.sold_by != self.app.app_id:
            return await self.desk.connected(project, seen.sold_by)
        if store.twin is None or seen.sold_by is not None:
            return False
        id = seen.snapshot.id
        known = await self.desk.owner(project, (store.twin, id))
        return known is not None and await self.desk.owner(project, (store.name, id)) is None

    async def _give_back(self, given: GivenBack) -> IntakeResult | None:
        """None where nobody here has the purchase."""
        project, store = self.app.project_id, self.app.store
        known = (await self._handles(given.handle)).get(given.handle)
        owner = await self.desk.owner(project, (store, known.store_id)) if known is not None else None
        if known is None or owner is None or owner.app_user_id is None:
            return None
        key = store, known.store_id
        change = Change(project_id=project, app_user_id=owner.app_user_id, apply=_giving_back(key, given))
        return IntakeResult(await self.changes.make(change))

    async def _take(self, seen: SeenPurchase, read_at: Ms, depth: int) -> IntakeResult:
        seen = await self._asked_about(await self._in_its_chain(seen, depth), read_at)
        try:
            return await self._apply(seen, read_at, strict=not seen.complete)
        except Incomplete:
            return await self._complete(seen, read_at)

    async def _asked_about(self, seen: SeenPurchase, read_at: Ms) -> SeenPurchase:
        """What was signed long ago may have been refunded since. So a receipt of a purchase that is new here, or whose
        owner was erased, counts only as its store tells it now."""
        snapshot, project = seen.snapshot, self.app.project_id
        if isinstance(snapshot, Purchase):
            transaction_id, told_at = snapshot.id, snapshot.told_at or 0
        else:
            transaction_id, told_at = snapshot.current.id, snapshot.current.as_of.at
        if self.shown_by is None or seen.unordered or read_at - told_at <= SIGNED_LONG_AGO:
            return seen
        key = snapshot.store, snapshot.id
        owner = await self.desk.owner(project, key)
        if owner is not None and owner.key is not None:
            return seen
        try:
            reading = await self.adapter.read_again(self.app, seen.handle, snapshot.environment)
        except NoAnswer:
            known = (await records.lock_erased(self.changes.database.hot, project, [key])).get(key, ())
            if any(ending.transaction_id == transaction_id for ending in known):
                # It has ended, as far as is known: not even temporary access.
                return seen
            raise
        found = [purchase for purchase in reading.seen if (purchase.snapshot.store, purchase.snapshot.id) == key]
        if not found:
            raise StoreDown("The store does not list the purchase of this receipt.")
        return found[0]

    async def _complete(self, seen: SeenPurchase, read_at: Ms) -> IntakeResult:
        """Read the whole purchase. If the store cannot be asked now, access comes first: take what there is."""
        told: tuple[Event, ...] = ()
        try:
            whole = await self.adapter.read_again(self.app, seen.handle, seen.snapshot.environment)
        except StoreError:
            whole = StoreReading()
        for purchase in whole.seen:
            if (purchase.snapshot.store, purchase.snapshot.id) == (seen.snapshot.store, seen.snapshot.id):
                told += (await self._apply(purchase, read_at, strict=False)).committed.events
        taken = await self._apply(seen, read_at, strict=False)
        return IntakeResult(replace(taken.committed, events=(*told, *taken.committed.events)), taken.consume)

    async def _in_its_chain(self, seen: SeenPurchase, depth: int) -> SeenPurchase:
        """A purchase that replaced another goes on under the other's id, and an imported one under the import's."""
        if not isinstance(seen.snapshot, Subscription) or not seen.replaces:
            return seen if seen.imported_as is None else await self._as_imported(seen, seen.snapshot)
        asked = (seen.handle, *seen.replaces)
        known = await self._handles(*asked)
        found = next((known[one] for one in asked if one in known), None)
        if found is None and depth < _LONGEST_CHAIN:
            before = await self.adapter.read_again(self.app, seen.replaces[0], seen.snapshot.environment)
            for purchase in before.seen:
                taken = await self._take(purchase, self.changes.now(), depth + 1)
                of_chain = next((x for x in taken.committed.customer.subscriptions if _continues(x, purchase)), None)
                if of_chain is not None:
                    return structs.replace(seen, snapshot=structs.replace(seen.snapshot, id=of_chain.id))
        if found is None:
            return seen
        return structs.replace(seen, snapshot=structs.replace(seen.snapshot, id=found.store_id))

    async def _as_imported(self, seen: SeenPurchase, snapshot: Subscription | Purchase) -> SeenPurchase:
        known = await self._handles(seen.handle)
        store_id = known[seen.handle].store_id if seen.handle in known else await self._imported_id(seen, snapshot)
        return (
            seen if store_id == snapshot.id else structs.replace(seen, snapshot=structs.replace(snapshot, id=store_id))
        )

    async def _imported_id(self, seen: SeenPurchase, snapshot: Subscription | Purchase) -> str:
        """The store sends a notification before it was asked about what was imported."""
        project, store, other = self.app.project_id, snapshot.store, seen.imported_as
        if other is None or await self.desk.owner(project, (store, other)) is None:
            return snapshot.id
        return snapshot.id if await self.desk.owner(project, (store, snapshot.id)) is not None else other

    async def _apply(self, seen: SeenPurchase, read_at: Ms, *, strict: bool) -> IntakeResult:
        project, key = self.app.project_id, (seen.snapshot.store, seen.snapshot.id)

        async def attempt() -> Committed:
            app_user_id = await self._owner(seen, key)
            change = Change(
                project_id=project,
                app_user_id=app_user_id,
                apply=self._applying(seen, read_at, strict=strict),
                create=True,
                claims=frozenset({key}),
                handle=partial(self._handle, seen),
                seen=self.seen if app_user_id == self.shown_by else None,
            )
            return await self.changes.make(change)

        async def take_over() -> Committed | None:
            shown_by = self.shown_by
            if shown_by is None or not self.restores:
                # It has just changed hands: look again.
                return None
            if self.shown_at is not None and await self._has_shown_since(self.shown_at, key):
                raise OwnedByAnother("The purchase belongs to another customer, who has shown receipts since.")

            def check(_: Catalog, owner: Customer) -> None:
                if not rules.proves_purchase(self.token, key, seen.account_token, shown_by, owner):
                    raise OwnedByAnother("The purchase belongs to another customer. Its id alone does not move it.")

            return await restore(self.changes, project, shown_by, key, check)

        async with turn(project, key):
            committed = await claimed(attempt, take_over)
        return IntakeResult(committed, _consume(seen, committed))

    def _applying(self, seen: SeenPurchase, read_at: Ms, *, strict: bool) -> Callable[[Situation], Customer]:
        attributes = self.attributes or {}

        def apply(situation: Situation) -> Customer:
            customer, snapshot = situation.customer, seen.snapshot
            if attributes:
                customer = with_shown_attributes(customer, attributes)
            if self.app_version is not None:
                customer = structs.replace(customer, original_application_version=self.app_version)
            if self.offering is not None:
                snapshot = presented(snapshot, self.offering, self.product_ids, situation.catalog)
            elif seen.offering is not None:
                snapshot = presented(snapshot, seen.offering, seen.offered, situation.catalog)
            # On a test clock only that clock's time means anything.
            now = read_at if customer.test_clock_id is None else situation.now
            if isinstance(snapshot, Purchase):
                known = customer.purchase(snapshot.store, snapshot.id)
                settled: Subscription | Purchase
                if known is None:
                    snapshot = as_long_as_sold(snapshot, situation.catalog)
                settled = settle_purchase(known, snapshot, read_at=now if seen.unordered else None)
            else:
                before = customer.subscription(snapshot.store, snapshot.id)
                if strict and lacks_periods(before, snapshot):
                    raise Incomplete("Periods before this one are missing.")
                settled = settle(before, snapshot, now, unordered=seen.unordered)
            return take_in(customer, settled, situation.now)

        return apply

    async def _owner(self, seen: SeenPurchase, key: records.PurchaseKey) -> str:
        if self.shown_by is not None and self.restores:
            return self.shown_by
        project = self.app.project_id
        owner = await self.desk.owner(project, key)
        if self.shown_by is not None and (owner is None or owner.key is None):
            return self.shown_by
        if owner is not None and owner.key is None:
            async with self.changes.database.transaction() as connection:
                if not await records.keep_endings(connection, project, seen.snapshot):
                    raise CollisionError("the purchase has just got an owner again")
            raise OwnerErased("The customer whom this purchase belonged to was deleted.")
        if owner is not None and owner.app_user_id is not None:
            return owner.app_user_id
        if self.receipts_since is not None and await self._has_receipts_to_check(self.receipts_since):
            raise ReceiptsFirst(RECEIPTS_FIRST)
        replaced = await self._owner_of_replaced(seen)
        if replaced is not None:
            return replaced
        # Random, so that nobody can guess it and log in with it. Two of them at once collide on the purchase.
        return await self._named_owner(seen.account_token) or f"$RCAnonymousID:{secrets.token_hex(16)}"

    async def _has_shown_since(self, moment: Ms, key: records.PurchaseKey) -> bool:
        """Whether the owner of a purchase has. Which purchases those receipts had is not asked: a store's receipts of
        one purchase differ, and one receipt may have many."""
        database, project = self.changes.database, self.app.project_id
        owner = await self.desk.owner(project, key)
        if owner is None or owner.key is None:
            return False
        ids = [alias.id for alias in await list_aliases(database, project, owner.key)]
        return await journal_rows.shown_since(database.hot, project, self.app.store, ids, moment)

    async def _has_receipts_to_check(self, since: Ms) -> bool:
        now = self.changes.now()
        return await self.desk.hurry_receipts(self.app.project_id, self.app.app_id, since, now, now + LEASE)

    async def _named_owner(self, account_token: str | None) -> str | None:
        """The customer whom the app named to the store. A digest that fits nobody yet names nobody: whoever has that id
        then gets the purchase when their phone shows it."""
        if not account_token or problem_with(account_token) is not None:
            return None
        spelt = spellings(account_token)
        known = await self.desk.known_ids(self.app.project_id, spelt)
        if (found := next((one for one in spelt if one in known), None)) is not None:
            return found
        if is_digest(account_token):
            return await self.desk.id_of_digest(self.app.project_id, account_token)
        return account_token

    async def _owner_of_replaced(self, seen: SeenPurchase) -> str | None:
        """Of a purchase that goes on for another one, such as a top-up. A subscription keeps its id instead."""
        if not seen.replaces or isinstance(seen.snapshot, Subscription):
            return None
        known = await self._handles(*seen.replaces)
        for one in seen.replaces:
            if one in known:
                owner = await self.desk.owner(self.app.project_id, (self.app.store, known[one].store_id))
                if owner is not None and owner.key is None:
                    raise OwnerErased("The customer whom this purchase belonged to was deleted.")
                if owner is not None and owner.app_user_id is not None:
                    return owner.app_user_id
        return None

    async def _handles(self, *named: str) -> dict[str, Handle]:
        """Those of the app's store that are known."""
        return await handles.load(self.changes.database.hot, self.app.project_id, self.app.store, named)

    def _handle(self, seen: SeenPurchase, customer: Customer, now: Ms) -> Handle:
        snapshot = seen.snapshot
        subscription = isinstance(snapshot, Subscription)
        known = customer.subscription(snapshot.store, snapshot.id) if subscription else None
        return Handle(
            project_id=self.app.project_id,
            app_id=self.app.app_id,
            store=self.app.store,
            handle=seen.handle,
            environment=snapshot.environment,
            store_id=snapshot.id,
            kind="subscription" if subscription else "one_time",
            product_id=known.current.product_id if known is not None else _product_of(snapshot),
            check_at=check_at(known, now) if known is not None else None,
            acknowledge_at=now + ACKNOWLEDGED_AFTER if seen.acknowledge else None,
        )


def _giving_back(key: records.PurchaseKey, given: GivenBack) -> Callable[[Situation], Customer]:
    """Adds the refund to what is known, unless one is known. All else stays."""
    back = MoneyBack(given.at)

    def apply(situation: Situation) -> Customer:
        customer, now = situation.customer, situation.now
        if (purchase := customer.purchase(*key)) is not None:
            mine = purchase.id == given.transaction_id and not purchase.money_back
            return take_in(customer, structs.replace(purchase, money_back=(back,)), now) if mine else customer
        subscription = customer.subscription(*key)
        for period in subscription.periods if subscription is not None else ():
            if period.id == given.transaction_id and not period.money_back:
                assert subscription is not None
                return take_in(
                    customer, structs.replace(subscription, periods=(structs.replace(period, money_back=(back,)),)), now
                )
        return customer

    return apply


def _consume(seen: SeenPurchase, committed: Committed) -> dict[str, bool]:
    if not isinstance(seen.snapshot, Purchase):
        return {}
    product_id = seen.snapshot.product_id
    return {product_id: seen.should_consume or committed.catalog.consumable(product_id)}


def _continues(subscription: Subscription, seen: SeenPurchase) -> bool:
    return subscription.store == seen.snapshot.store and any(
        period.id in {one.id for one in getattr(seen.snapshot, "periods", ())} for period in subscription.periods
    )


def _product_of(snapshot: Subscription | Purchase) -> str:
    return snapshot.product_id if isinstance(snapshot, Purchase) else snapshot.current.product_id
