"""Reads files into the database, row by row: nothing but the current chunk is in memory. Knows which rows the records
of a file hold, in Latchkey's own format or the vendor's. Reads batches of customers back."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from msgspec import Struct, msgpack
from msgspec.structs import replace

from latchkey.database.pool import Connection
from latchkey.domain.catalog import Catalog
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Invalid
from latchkey.domain.stores.store import PROMOTIONAL
from latchkey.subjects.exports import wire as exports_wire
from latchkey.subjects.imports import storage
from latchkey.subjects.imports.rules import latchkey_format, revenuecat_format
from latchkey.subjects.imports.rules.person import ImportedPerson, PurchaseKey, person, together
from latchkey.subjects.imports.rules.row import CustomerRow, RowError, RowKind, Skip, TransactionRow, happened
from latchkey.subjects.imports.storage import StagedId, StagedRow
from latchkey.subjects.imports.usecases.import_files import SourceFile, opened

Format = Literal["latchkey", "revenuecat"]
Cells: TypeAlias = Mapping[str, Any]
Row: TypeAlias = TransactionRow | CustomerRow

_TRANSACTIONS = frozenset(column.name for column in exports_wire.columns(exports_wire.TransactionRow))
_CUSTOMERS = frozenset(column.name for column in exports_wire.columns(exports_wire.CustomerRow))
_NEEDED = ("app_user_id", "store", "transaction_id", "product_id", "purchased_at")
_DOCS = "docs/import.md lists the columns."
NO_CURRENCY = (
    "A balance was left out: the project has no such virtual currency. Everything else of the row was imported."
)
# Stores whose purchases were made in no app.
_WITHOUT_APP = frozenset({PROMOTIONAL})
# Of so many customers it is remembered what was last said of them, because every row of the vendor repeats it.
_REMEMBERED = 20_000
_MOST_NAMED = 1_000


@dataclass(slots=True)
class RecordReader:
    """Makes rows of the records of one import, and notes what the operator should know."""

    format: Format
    catalog: Catalog
    # The apps of the project, by store.
    apps: Mapping[str, Sequence[str]]
    # What the operator said: the app of a store.
    chosen: Mapping[str, str]
    now: Ms
    # The codes of the project's virtual currencies.
    currencies: frozenset[str] = frozenset()
    unknown_products: set[str] = field(default_factory=set)
    stores_without_app: set[str] = field(default_factory=set)
    _app_ids: dict[str, str | None] = field(default_factory=dict)
    _said: OrderedDict[str, int] = field(default_factory=OrderedDict)
    # The lookup keys of the project's offerings.
    _offerings: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._offerings = frozenset(offering.lookup_key for offering in self.catalog.offerings.offerings)

    def of_header(self, file: str, header: Collection[str]) -> Callable[[Cells], list[Row]]:
        """What makes rows of a file with these columns. Raises Invalid for a file that is none of this format."""
        names = frozenset(header)
        if self.format == "latchkey":
            return self._own(file, names)
        if names >= revenuecat_format.NEEDED:
            return self._vendor
        if latchkey_format.is_customer_list(names):
            return lambda cells: [latchkey_format.listed_customer(cells)]
        missing = ", ".join(sorted(revenuecat_format.NEEDED - names))
        raise Invalid(f"{file} is no transaction export of RevenueCat, version 4 or 5: {missing} is missing. {_DOCS}")

    def _own(self, file: str, names: frozenset[str]) -> Callable[[Cells], list[Row]]:
        transactions = "transaction_id" in names
        known = _TRANSACTIONS if transactions else _CUSTOMERS
        what = "transactions" if transactions else "customers"
        if "app_user_id" not in names:
            if names >= revenuecat_format.NEEDED or latchkey_format.is_customer_list(names):
                raise Invalid(f"{file} is an export of RevenueCat. Add --format revenuecat.")
            raise Invalid(f"{file} has no column app_user_id, so it holds neither customers nor transactions. {_DOCS}")
        if unknown := sorted(names - known):
            raise Invalid(f"{file} has a column that {what} do not have: {unknown[0]}. {_DOCS}")
        if transactions and (missing := [name for name in _NEEDED if name not in names]):
            raise Invalid(f"{file} has no column {missing[0]}, which transactions need. {_DOCS}")
        return self._own_transaction if transactions else self._own_customer

    def _own_transaction(self, cells: Cells) -> list[Row]:
        row = latchkey_format.transaction(cells, self.chosen)
        if row.app_id is not None and not any(row.app_id in ids for ids in self.apps.values()):
            raise RowError("There is no such app in this project. Name the one to use with --app STORE=APP.")
        return [self._noted(row)]

    def _own_customer(self, cells: Cells) -> list[Row]:
        row = latchkey_format.customer(cells)
        if unknown := row.balances.keys() - self.currencies:
            reasons = (*row.left_out, *(NO_CURRENCY for _ in unknown))
            kept = {code: amount for code, amount in row.balances.items() if code not in unknown}
            row = replace(row, balances=kept, left_out=reasons)
        return [row]

    def _vendor(self, cells: Cells) -> list[Row]:
        store = str(cells.get("store") or "").strip().lower()
        if store not in self._app_ids:
            self._app_ids[store] = self._app_of(store)
        about = revenuecat_format.customer(cells)
        rows: list[Row] = [] if self._is_known(about) else [about]
        try:
            return [*rows, self._noted(revenuecat_format.transaction(cells, self._app_ids))]
        except RowError:
            if rows:
                # What it says of the customer is to come with another row.
                self._said.pop(about.ids[0], None)
            raise

    def _is_known(self, row: CustomerRow) -> bool:
        id = row.ids[0]
        said = hash((row.app_user_id, row.first_seen_at, row.last_seen, row.left_out, *row.attributes.items()))
        if self._said.get(id) == said:
            self._said.move_to_end(id)
            return True
        self._said[id] = said
        if len(self._said) > _REMEMBERED:
            self._said.popitem(last=False)
        return False

    def _app_of(self, store: str) -> str | None:
        if store in self.chosen:
            return self.chosen[store]
        found = self.apps.get(store, ())
        if len(found) > 1:
            raise Invalid(
                f"This project has {len(found)} apps in {store}, and the file does not say which one: "
                f"{', '.join(found)}. Choose with --app {store}=APP."
            )
        if not found and store not in _WITHOUT_APP:
            self.stores_without_app.add(store)
        return found[0] if found else None

    def _noted(self, row: TransactionRow) -> TransactionRow:
        row = happened(row, self.now)
        # As with what an app says: a dimension of charts must not grow without limit.
        if row.offering is not None and row.offering not in self._offerings:
            row = replace(row, offering=None)
        if row.kind is RowKind.PROMOTIONAL:
            if row.entitlement_id is None:
                raise RowError("The grant names no entitlement.")
            if row.entitlement_id not in self.catalog.entitlements:
                raise RowError(f"There is no entitlement {row.entitlement_id!r:.60} in this project. Create it first.")
        elif len(self.unknown_products) < _MOST_NAMED and self.catalog.find(row.product_id) is None:
            self.unknown_products.add(row.product_id)
        return row


_encode = msgpack.Encoder().encode
# The number of the file, the line, and the row.
_decode = msgpack.Decoder(tuple[int, int, TransactionRow | CustomerRow]).decode


class StagedBatch(Struct):
    people: list[ImportedPerson]
    # Where the rows of each purchase stand, by file and line, and those of each customer.
    places: dict[PurchaseKey, list[tuple[str, int]]]
    homes: dict[str, tuple[str, int]]

    def skips(self, bought: Iterable[Subscription | Purchase], reason: str) -> list[Skip]:
        """One for each row of these purchases."""
        return [
            Skip(*place, reason) for purchase in bought for place in self.places.get((purchase.store, purchase.id), ())
        ]


def read_batch(groups: Mapping[str, Iterable[bytes]], files: Sequence[str]) -> StagedBatch:
    """The rows of some customers, put together: who they are, what they bought, and where each row stands."""
    places: dict[PurchaseKey, list[tuple[str, int]]] = {}
    homes: dict[str, tuple[str, int]] = {}
    people: list[ImportedPerson] = []
    for key, packed in groups.items():
        transactions: list[TransactionRow] = []
        told: list[CustomerRow] = []
        for one in packed:
            file, line, row = _decode(one)
            place = files[file], line
            if isinstance(row, TransactionRow):
                transactions.append(row)
                places.setdefault((row.store, row.chain), []).append(place)
            else:
                told.append(row)
            homes.setdefault(key, place)
        made = person(key, transactions, told)
        homes[made.app_user_id] = homes[key]
        people.append(made)
    return StagedBatch(_unrepeated(people), places, homes)


def _unrepeated(people: Iterable[ImportedPerson]) -> list[ImportedPerson]:
    """People who share an id or a purchase are one."""
    found: list[ImportedPerson | None] = []
    holders: dict[object, int] = {}
    for imported_person in people:
        named: set[object] = {*imported_person.ids, *imported_person.keys}
        index = len(found)
        found.append(imported_person)
        while shared := {holders[name] for name in named if name in holders} - {index}:
            for other in shared:
                mine, theirs = found[index], found[other]
                assert mine is not None
                if theirs is not None:
                    found[index] = mine = together(theirs, mine)
                    named |= {*mine.ids, *mine.keys}
                found[other] = None
                holders = {name: index if holder == other else holder for name, holder in holders.items()}
        holders.update(dict.fromkeys(named, index))
    return [imported_person for imported_person in found if imported_person is not None]


_CHUNK = 5_000


class _Chunk(Struct):
    rows: list[StagedRow] = []
    ids: list[StagedId] = []
    skips: list[Skip] = []

    def __len__(self) -> int:
        return len(self.rows) + len(self.skips)


async def stage(
    connection: Connection,
    project_id: str,
    run_id: str,
    reader: RecordReader,
    sources: Sequence[SourceFile],
    progress: Callable[[int, int], None],
    *,
    note_skips: bool,
) -> Counter[str]:
    """Counts what was read. In a transaction. `progress` is told how many bytes of how many were read."""
    counts: Counter[str] = Counter()
    chunk, done, number, total = _Chunk(), 0, 0, sum(file.size for file in sources)

    async def flush() -> None:
        nonlocal chunk
        await storage.add(connection, project_id, run_id, chunk.rows, chunk.ids)
        if note_skips:
            await storage.add_skips(connection, project_id, run_id, chunk.skips)
        chunk = _Chunk()

    for index, one in enumerate(sources):
        with opened(one.path) as content:
            makers: dict[frozenset[str], Callable[[Cells], list[Row]]] = {}
            of_file = None if content.header is None else reader.of_header(str(one.path), content.header)
            for record in content.records:
                counts["rows read"] += 1
                try:
                    if record.problem is not None:
                        raise record.problem
                    make = of_file
                    if make is None:
                        names = frozenset(record.cells)
                        make = makers.get(names)
                        if make is None:
                            make = makers[names] = reader.of_header(f"{one.path}, line {record.line}", names)
                    for row in make(record.cells):
                        number += 1
                        _add(chunk, reader, index, record.line, number, row)
                        counts["transactions" if isinstance(row, TransactionRow) else "customer rows"] += 1
                        if isinstance(row, CustomerRow) and row.left_out:
                            counts["attributes and balances left out"] += len(row.left_out)
                            chunk.skips += [Skip(one.name, record.line, why) for why in dict.fromkeys(row.left_out)]
                except RowError as error:
                    counts["skipped"] += 1
                    chunk.skips.append(Skip(one.name, record.line, error.reason))
                if len(chunk) >= _CHUNK:
                    await flush()
                    progress(done + content.position(), total)
        done += one.size
        progress(done, total)
    await flush()
    return counts


def _add(chunk: _Chunk, reader: RecordReader, file: int, line: int, number: int, row: Row) -> None:
    # The id under which the rows of one customer are put together.
    group, packed = row.app_user_id, _encode((file, line, row))
    if isinstance(row, CustomerRow):
        group = group if reader.format == "latchkey" else row.original_app_user_id or group
        chunk.rows.append(StagedRow(group, number, None, None, row.as_of, packed))
        chunk.ids += [StagedId(id, group, row.as_of) for id in row.ids if id != group]
    else:
        chunk.rows.append(StagedRow(group, number, row.store, row.chain, row.updated_at, packed))
