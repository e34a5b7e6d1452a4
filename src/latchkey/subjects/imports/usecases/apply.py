"""A batch of customers from an import becomes part of the project, in one transaction with the progress of the import.

Somebody new is written at once with everything. Somebody who is known here already is changed by the rules for what a
store tells. Nothing of this is told as an event, unless the operator asked for it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from latchkey.database.pool import Connection
from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.period_rows import rows_of
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import is_anonymous_customer
from latchkey.domain.instants import SECOND, Ms
from latchkey.domain.money.pinned_rates import pinned
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.reference import underivable_transactions
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.store import store_of
from latchkey.domain.stores.waits import check_at
from latchkey.engine.due_transitions import Step, at_present, next_due_at
from latchkey.engine.storage import records
from latchkey.engine.storage import store_handles as handles
from latchkey.engine.storage.records import Newcomer, Owner, Stored
from latchkey.engine.storage.store_handles import Handle
from latchkey.engine.storage.writes import Owned, TransactionOwner, Writes, coins, write
from latchkey.engine.unit_of_work import UnitOfWork, passes_until, purchase_keys, unheard
from latchkey.subjects.imports.rules import person as persons
from latchkey.subjects.imports.rules.person import ImportedPerson, PurchaseKey
from latchkey.subjects.imports.rules.row import Skip, is_known_by_another_id
from latchkey.subjects.imports.usecases.staging import StagedBatch


class Questions(Struct):
    """Counts the questions by app, so that each gets its own second."""

    began_at: Ms
    asked: dict[str, int] = msgspec.field(default_factory=dict)

    def of(
        self, customer: Customer, keys: frozenset[PurchaseKey], tokens: Mapping[PurchaseKey, str], now: Ms
    ) -> Iterator[tuple[Handle, Ms]]:
        """The handles of these purchases, each with the moment at which its store last told of it."""
        bought: Bought = (*customer.subscriptions, *customer.purchases)
        for one in bought:
            handle = _handle(one, tokens.get((one.store, one.id)))
            if (one.store, one.id) not in keys or one.app_id is None or handle is None:
                continue
            asked = Handle(
                project_id=customer.project_id,
                app_id=one.app_id,
                store=one.store,
                handle=handle,
                environment=one.environment,
                store_id=one.id,
                kind="subscription" if isinstance(one, Subscription) else "one_time",
                product_id=one.current.product_id if isinstance(one, Subscription) else one.product_id,
                check_at=self._check_at(one, one.app_id, now) if isinstance(one, Subscription) else None,
            )
            told_at = one.status.as_of.at if isinstance(one, Subscription) else one.told_at or one.purchased_at
            yield asked, min(told_at, now)

    def _check_at(self, one: Subscription, app_id: str, now: Ms) -> Ms | None:
        """In turn, but never later than without an import. What ended long ago is not asked about."""
        expected = check_at(one, now)
        if expected is None:
            return None
        turn = self.asked[app_id] = self.asked.get(app_id, 0) + 1
        return min(expected, self.began_at + int(turn * SECOND / store_of(one.store).reads_per_second))


def _handle(one: Subscription | Purchase, token: str | None) -> str | None:
    if isinstance(one, Purchase) and one.kind is not PurchaseKind.ONE_TIME:
        return None
    if token is not None:
        return token
    store = store_of(one.store)
    id = one.current.id if isinstance(one, Subscription) and store.asked_by_last_transaction else one.id
    return id if id.startswith(store.askable_ids) else None


ERASED = "The customer whom the purchase belonged to was deleted here."
KNOWN_AT_STRIPE = "Stripe has told of this subscription already, by its own id. Nothing is missing."
ON_TEST_CLOCK = "The customer lives on a test clock here, where real purchases mean nothing."
TAKEN_ID = "The customer has an id that belongs to another customer here. Everything but that id was imported."

Bought: TypeAlias = tuple[Subscription | Purchase, ...]
_KINDS = {PurchaseKind.ONE_TIME: "one-time purchases", PurchaseKind.PROMOTIONAL: "grants"}


class BatchOutcome(Struct):
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    skips: list[Skip] = msgspec.field(default_factory=list)
    # Currencies of payments for which neither the file nor the operator has a rate.
    without_rate: set[str] = msgspec.field(default_factory=set)


class _Known(Struct):
    """Who of the batch is known here, and who owns its purchases."""

    by_id: dict[str, Stored]
    owners: Mapping[tuple[str, str], Owner]
    by_key: dict[int, Stored]

    def owner(self, one: Subscription | Purchase) -> Stored | None:
        found = self.owners.get((one.store, one.id))
        return None if found is None or found.key is None else self.by_key.get(found.key)

    def erased(self, one: Subscription | Purchase) -> bool:
        found = self.owners.get((one.store, one.id))
        return found is not None and found.key is None

    def whom(self, person: ImportedPerson) -> Stored | None:
        """By the id used last, by another id, or as the owner of a purchase of whom nobody knows who it is."""
        for id in (person.app_user_id, *person.ids):
            if id in self.by_id:
                return self.by_id[id]
        owners = (self.owner(one) for one in person.bought)
        return next((owner for owner in owners if owner is not None and is_anonymous_customer(owner.customer)), None)


class Applier(Struct, frozen=True, kw_only=True):
    project_id: str
    run_id: str
    catalog: Catalog
    # The codes of the project's virtual currencies.
    currencies: frozenset[str]
    questions: Questions
    # Whether what happened in the past is told as events.
    told: bool = False
    # Look, but write nothing.
    dry: bool = False

    async def apply(self, connection: Connection, batch: StagedBatch, now: Ms) -> BatchOutcome:
        """In the transaction of the connection."""
        outcome = BatchOutcome()
        known = await self._look(connection, batch)
        fresh: list[ImportedPerson] = []
        met_here: list[tuple[Stored, ImportedPerson, Bought]] = []
        for person in batch.people:
            if gone := tuple(one for one in person.bought if known.erased(one)):
                outcome.skips += batch.skips(gone, ERASED)
            whom = known.whom(person)
            mine: list[Subscription | Purchase] = []
            for one in person.bought:
                if whom is not None and is_known_by_another_id(whom.customer, one):
                    outcome.skips += batch.skips((one,), KNOWN_AT_STRIPE)
                    continue
                owner = known.owner(one)
                if owner is not None and (whom is None or owner.key != whom.key):
                    # Whoever owns a purchase here keeps it, as when its store tells of it.
                    met_here.append(
                        (owner, replace(person, ids=(), attributes={}), (persons.with_rates(one, self.catalog.tariff),))
                    )
                elif not known.erased(one):
                    mine.append(persons.with_rates(one, self.catalog.tariff))
            part = replace(person, bought=tuple(mine))
            if whom is None:
                fresh.append(part)
            else:
                met_here.append((whom, part, part.bought))
            outcome.counts["new customers" if whom is None else "known customers"] += 1
            kinds = ("subscriptions" if isinstance(one, Subscription) else _KINDS[one.kind] for one in part.bought)
            outcome.counts.update(kinds)
        asked = await self._create(connection, fresh, now, known, outcome)
        if self.told:
            met_here += [(known.by_id[one.app_user_id], one, one.bought) for one in fresh]
        asked += await self._meet(connection, met_here, known, batch, now, outcome)
        if not self.dry:
            await handles.add(connection, asked, first_seen_at=now)
        outcome.counts["to ask the stores about"] += sum(one.check_at is not None for one, _ in asked)
        return outcome

    async def _look(self, connection: Connection, batch: StagedBatch) -> _Known:
        found = await records.lock(connection, [(self.project_id, id) for one in batch.people for id in one.ids])
        wanted = [(self.project_id, one.store, one.id) for person in batch.people for one in person.bought]
        owned = await records.owners(connection, wanted) if wanted else {}
        keys = {one.key for one in found.values()}
        others = {one.app_user_id for one in owned.values() if one.key not in keys and one.app_user_id is not None}
        if others:
            found |= await records.lock(connection, [(self.project_id, id) for id in others])
        return _Known(
            by_id={id: one for (_, id), one in found.items()},
            owners={(store, id): one for (_, store, id), one in owned.items()},
            by_key={one.key: one for one in found.values()},
        )

    async def _create(
        self, connection: Connection, people: list[ImportedPerson], now: Ms, known: _Known, outcome: BatchOutcome
    ) -> list[tuple[Handle, Ms]]:
        """Those whom nobody here knows. With `told` their purchases follow, with their events."""
        made: list[Newcomer] = []
        asked: list[tuple[Handle, Ms]] = []
        for one in people:
            customer = persons.new_customer(one, self.project_id, uuid4().hex, now)
            if not self.told:
                customer = persons.taken_in(customer, one, one.bought, now)
                # What ended before now is over, and is not told.
                customer = self._pinned(at_present(customer, self.catalog, now), outcome)
                asked += self.questions.of(customer, frozenset(one.keys), one.tokens, now)
            balances = {code: amount for code, amount in one.balances.items() if code in self.currencies}
            customer = persons.with_balances(customer, balances, f"import:{self.run_id}", now)
            made.append(Newcomer(customer, next_due_at(customer), persons.last_seen_of(one, now)))
        if self.dry:
            stored = [Stored(-number, one.customer) for number, one in enumerate(made, start=1)]
        else:
            stored = await records.create_all(connection, self.project_id, made)
            await self._index(connection, stored, now)
        if self.told:
            for each in stored:
                settled = replace(each, customer=replace(each.customer, currency_transactions=()))
                known.by_id |= dict.fromkeys(settled.customer.aliases, settled)
        return asked

    async def _index(self, connection: Connection, stored: list[Stored], now: Ms) -> None:
        """What the ordinary way writes beside a new customer: balances, and what belongs to purchases."""
        writes = Writes(self.project_id)
        for one in stored:
            customer = one.customer
            writes.coins += coins(one.key, {}, customer)
            if customer.subscriptions or customer.purchases:
                writes.owned += (Owned(one.key, *key) for key in purchase_keys(customer))
                writes.periods += rows_of(one.key, customer, self.catalog)
                writes.marked.append(one.key)
            for bought in customer.subscriptions:
                writes.transactions += (
                    TransactionOwner(bought.store, id, bought.id) for id in underivable_transactions(bought)
                )
        await write(connection, writes, now)

    async def _meet(
        self,
        connection: Connection,
        people: list[tuple[Stored, ImportedPerson, Bought]],
        known: _Known,
        batch: StagedBatch,
        now: Ms,
        outcome: BatchOutcome,
    ) -> list[tuple[Handle, Ms]]:
        if not people:
            return []
        silent = await unheard(connection, (stored.customer for stored, _, _ in people), now)
        unit = UnitOfWork(now, unheard=silent)
        asked: list[tuple[Handle, Ms]] = []
        for stored, person, bought in people:
            if stored.customer.test_clock_id is not None:
                outcome.skips += batch.skips(bought, ON_TEST_CLOCK)
                continue
            free = frozenset(id for id in person.ids if id not in known.by_id)
            if any(known.by_id[id].key != stored.key for id in person.ids if id not in free):
                outcome.skips.append(Skip(*batch.homes[person.app_user_id], TAKEN_ID))
            self._change(unit, stored, person, bought, free, now, outcome)
            known.by_id |= dict.fromkeys(free, stored)
            keys = frozenset((one.store, one.id) for one in bought)
            asked += self.questions.of(unit.current(stored), keys, person.tokens, now)
        if not self.dry:
            await unit.commit(connection)
        return asked

    def _change(
        self,
        unit: UnitOfWork,
        stored: Stored,
        person: ImportedPerson,
        bought: Bought,
        free: frozenset[str],
        now: Ms,
        outcome: BatchOutcome,
    ) -> None:
        before = unit.catch_up(stored, self.catalog, now)
        after = persons.met(before, person, free, now) if person.ids else before
        after = persons.taken_in(after, person, bought, now)
        if self.told:
            unit.record(stored, Step(before, after, now), self.catalog)
            unit.catch_up(stored, self.catalog, now)
        else:
            until = passes_until(after, unit.unheard, now)
            unit.adopt(stored, self._pinned(at_present(after, self.catalog, until), outcome), self.catalog)

    def _pinned(self, customer: Customer, outcome: BatchOutcome) -> Customer:
        """With the terms that the file does not tell, as for any new payment."""
        customer = pinned(customer, self.catalog.tariff).customer
        outcome.without_rate |= persons.without_rate((*customer.subscriptions, *customer.purchases))
        return customer
