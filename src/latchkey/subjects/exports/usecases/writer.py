"""The place where an export ended and the next increment begins.

No row may be missed by a series of increments, whatever was being written while each of them ran. So a cursor is not a
time: a transaction that began before it may commit after it. It is what PostgreSQL knows for certain:

- events have positions without gaps, in the order of commits;
- every other row carries the id of the transaction that wrote it. The cursor holds the oldest transaction that was
  still running (`xid`). The next export takes every row written by that transaction or a later one. Rows of
  transactions that the first export saw already are exported twice, and none is missed.

Transaction ids mean nothing in another database, or in one that was set back to a backup. `epoch` tells.
"""

import asyncio
import base64
import binascii
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from typing import TypeAlias

import structlog
from msgspec import MsgspecError, Struct, json

from latchkey.database.pool import Connection, Database
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, LastSeen
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.storage.state import decode
from latchkey.subjects.exports import render, storage
from latchkey.subjects.exports.storage import ExportedCustomer, ExportedEvent, ExportSnapshot
from latchkey.subjects.exports.usecases.destinations import Destination, Upload, errors_in_words
from latchkey.subjects.exports.usecases.export_formats import PartFile, instant, open_part
from latchkey.subjects.exports.wire import ROWS, ChangedCustomerRow, ExportFile, Format, Manifest, Row
from latchkey.wire.event import Event

_PREFIX = "lk1."
# Rows keep 32 bits of a transaction id. With fewer transactions than this since the cursor they are unambiguous.
_REACH = 2**31


class ExportCursor(Struct, frozen=True):
    project_id: str
    epoch: str
    xid: int
    position: int
    # What the catalog granted: see `grants_of`.
    grants: str

    def text(self) -> str:
        return _PREFIX + base64.urlsafe_b64encode(json.encode(self)).decode().rstrip("=")


_DECODER = json.Decoder(ExportCursor)


def parse(text: str) -> ExportCursor:
    try:
        encoded = text.strip().removeprefix(_PREFIX)
        return _DECODER.decode(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (MsgspecError, binascii.Error, ValueError) as error:
        raise Invalid(
            "That is not the cursor of an export. It is in the export's manifest.json.", param="since"
        ) from error


def can_continue(cursor: ExportCursor, project_id: str, snapshot: ExportSnapshot) -> bool:
    """Whether an increment can begin at this cursor: it is of this project, of this database, which was not moved or
    restored since, and not too long ago."""
    if (cursor.project_id, cursor.epoch) != (project_id, snapshot.epoch):
        return False
    ahead = cursor.xid > snapshot.next_xid or cursor.position > snapshot.position
    return not ahead and snapshot.next_xid - cursor.xid < _REACH


def grants_of(catalog: Catalog) -> str:
    """A digest of what products grant. When it changes, the rows of customers who own them change with it, although
    nobody writes their customers."""
    granted = sorted((id, product.grants) for id, product in catalog.products.items() if product.grants)
    former = sorted(
        (clock or "", product_id, one.entitlement_id, one.detached_at)
        for clock, products in catalog.former.items()
        for product_id, all_former in products.items()
        for one in all_former
    )
    return sha256(json.encode((granted, former))).hexdigest()[:32]


class PartLimits(Struct, frozen=True):
    rows: int = 1_000_000
    bytes: int = 256 * 1024 * 1024


@dataclass(slots=True)
class Files:
    """The files of one export. Rows go into parts of a bounded size; a part goes to the destination when it is full."""

    upload: Upload
    format: Format
    limits: PartLimits
    finished: list[ExportFile] = field(default_factory=list)
    rows: int = 0
    _open: dict[str, PartFile] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    async def begin(self, what: Iterable[str]) -> None:
        """Every kind of row has at least one file, so that readers find one."""
        for one in what:
            await asyncio.to_thread(self._begin, one)

    def write(self, what: str, rows: Sequence[Row]) -> None:
        """Call it in a thread, and `send` afterwards."""
        if not rows:
            return
        if what not in self._open:
            self._begin(what)
        part = self._open[what]
        with errors_in_words(str(self.upload.workspace)):
            part.write(list(rows))
        part.rows += len(rows)
        self.rows += len(rows)

    async def send(self, *, everything: bool = False) -> None:
        """What is full. The next part begins with its first row: otherwise the last one would often be empty."""
        for what, part in list(self._open.items()):
            if everything or part.rows >= self.limits.rows or part.size() >= self.limits.bytes:
                await self._send(what)

    def close(self) -> None:
        """After an error: the descriptors are closed, and nothing is sent."""
        for part in self._open.values():
            try:
                part.close()
            except Exception:  # noqa: S112  # what could not be written is thrown away
                continue
        self._open.clear()

    def _begin(self, what: str) -> None:
        number = self._numbers[what] = self._numbers.get(what, 0) + 1
        name = f"{what}-{number:05}.{self.format}"
        with errors_in_words(str(self.upload.workspace)):
            self._open[what] = open_part(self.upload.workspace / name, self.format, what, ROWS[what])

    async def _send(self, what: str) -> None:
        part = self._open.pop(what)
        self.finished.append(await asyncio.to_thread(self._close, what, part))
        await self.upload.put(part.path.name)

    def _close(self, what: str, part: PartFile) -> ExportFile:
        with errors_in_words(str(self.upload.workspace)):
            part.close()
            with part.path.open("rb") as file:
                digest, size = file_digest(file, "sha256").hexdigest(), file.tell()
        return ExportFile(name=part.path.name, what=what, rows=part.rows, bytes=size, sha256=digest)


WHAT = ("events", "transactions", "customers", "entitlements")
# Rows that belong to customers. `changed_customers` comes with each increment of them.
OF_CUSTOMERS = frozenset({"transactions", "customers", "entitlements"})
CHANGED = "changed_customers"

# Customers of a batch, and how many an increment looks at to find those that changed.
AT_ONCE = 500
STRETCH = 20_000
EVENTS_AT_ONCE = 2_000
# How long the database waits for us between two batches: a bucket may be slow.
PATIENCE_SECONDS = 3_600

_EVENTS = json.Decoder(Event)
# The customer's key, the customer, and when the customer was seen last.
_Read: TypeAlias = tuple[int, Customer, LastSeen]

log = structlog.get_logger()


class ExportOrder(Struct, frozen=True):
    project_id: str
    what: tuple[str, ...]
    format: Format
    # None: everything.
    since: ExportCursor | None = None
    with_tokens: bool = False


# Called with the share of the work that is done, from 0 to 1, and with the number of rows.
Progress = Callable[[float, int], None]


def checked_what(what: Sequence[str]) -> tuple[str, ...]:
    """In the usual order, each once."""
    unknown = [one for one in what if one not in WHAT]
    if unknown or not what:
        raise Invalid(f"Choose from {', '.join(WHAT)}.", param="what")
    return tuple(one for one in WHAT if one in what)


async def run(
    database: Database,
    order: ExportOrder,
    destination: Destination,
    now: Callable[[], Ms],
    *,
    progress: Progress = lambda _share, _rows: None,
    limits: PartLimits | None = None,
) -> Manifest:
    """The manifest is at the destination when this returns. If it raises, there is no export."""
    began = now()
    name = f"{instant(began).translate(_BARE)}-{secrets.token_hex(3)}"
    async with destination.upload(f"{order.project_id}/{name}") as upload:
        files = Files(upload, order.format, limits or PartLimits())
        try:
            work = _Work(order, files, progress)
            await work.export(database)
            await files.send(everything=True)
        finally:
            await asyncio.to_thread(files.close)
        assert work.cursor is not None
        manifest = Manifest(
            project_id=order.project_id,
            id=name,
            kind="whole" if work.since is None else "increment",
            what=list(order.what),
            format=order.format,
            with_tokens=order.with_tokens,
            as_of=instant(began),
            finished_at=instant(now()),
            since=work.since.text() if work.since is not None else None,
            cursor=work.cursor.text(),
            files=sorted(files.finished, key=lambda one: one.name),
            unreadable=work.unreadable,
            unreadable_events=work.unreadable_events,
        )
        await upload.finish(json.format(json.encode(manifest), indent=2) + b"\n")
    return manifest


def missing(manifest: Manifest) -> str | None:
    """What could not be read, in words; None if everything could."""
    counted = {"customers": manifest.unreadable, "events": manifest.unreadable_events}
    named = [f"{count:,} {what}" for what, count in counted.items() if count]
    return f"Could not be read, and missing in the export: {' and '.join(named)}." if named else None


_BARE = str.maketrans("", "", "-:.")


class _Work:
    def __init__(self, order: ExportOrder, files: Files, progress: Progress) -> None:
        self._order = order
        self._files = files
        self._progress = progress
        self._of_customers = OF_CUSTOMERS.intersection(order.what)
        parts = {"customers": bool(self._of_customers), "events": "events" in order.what}
        self._shares = {part: 0.0 for part, wanted in parts.items() if wanted}
        self.since = order.since
        self.cursor: ExportCursor | None = None
        self.unreadable = 0
        self.unreadable_events = 0

    async def export(self, database: Database) -> None:
        async with database.transaction(isolation="repeatable_read", readonly=True) as connection:
            snapshot = await storage.take_snapshot(connection, self._order.project_id)
            await storage.allow_time(connection, PATIENCE_SECONDS)
            if snapshot.catalog_version is None:
                raise NotFound(f"There is no project {self._order.project_id}.", param="project")
            # Not shared with others: this transaction may see an older catalog than they do.
            projects = await load_projects(connection, Catalogs(), {self._order.project_id})
            catalog = projects[self._order.project_id].catalog
            place = snapshot.epoch, snapshot.oldest_xid, snapshot.position
            self.cursor = ExportCursor(self._order.project_id, *place, grants_of(catalog))
            if self.since is not None and not can_continue(self.since, self._order.project_id, snapshot):
                self.since = None
            of_increment = (CHANGED,) if self._of_customers and self.since is not None else ()
            await self._files.begin((*self._order.what, *of_increment))
            if self._of_customers:
                await self._export_customers(connection, snapshot, catalog)
        # Events never change, except by an erasure, which the next increment sees: they need no snapshot.
        if "events" in self._order.what:
            await self._export_events(database, snapshot)

    async def _export_customers(self, connection: Connection, snapshot: ExportSnapshot, catalog: Catalog) -> None:
        # In threads: thousands of rows take longer than others should wait.
        async for batch in self._customers(connection, snapshot, catalog):
            read = await asyncio.to_thread(self._decoded, batch)
            tokens = await self._tokens(connection, read)
            await asyncio.to_thread(self._write_customers, read, catalog, tokens)
            await self._step("customers", batch[-1].key, snapshot.last_customer)
        if self.since is not None:
            after = 0
            while gone := await storage.gone_customers(
                connection, self._order.project_id, self.since.xid, after, EVENTS_AT_ONCE
            ):
                after = gone[-1]
                rows = [ChangedCustomerRow(customer_key=key, deleted=True) for key in gone]
                await asyncio.to_thread(self._files.write, CHANGED, rows)
                await self._step("customers", 1, 1)

    async def _customers(
        self, connection: Connection, snapshot: ExportSnapshot, catalog: Catalog
    ) -> AsyncIterator[list[ExportedCustomer]]:
        project_id, since, after = self._order.project_id, self.since, 0
        # Where the catalog grants something else now, the rows of every customer may have changed.
        xid = since.xid if since is not None and since.grants == grants_of(catalog) else None
        while (end := await storage.end_of_stretch(connection, project_id, after, STRETCH)) is not None:
            while batch := await storage.customers(connection, project_id, after, end, xid, AT_ONCE):
                after = batch[-1].key
                yield batch
            after = end
            await self._step("customers", end, snapshot.last_customer)

    async def _tokens(self, connection: Connection, read: list[_Read]) -> render.Tokens:
        if not self._order.with_tokens or "transactions" not in self._order.what:
            return {}
        bought = [
            (one.store, one.id)
            for _, customer, _ in read
            for purchases in (customer.subscriptions, customer.purchases)
            for one in purchases
        ]
        return await storage.tokens(connection, self._order.project_id, bought)

    def _decoded(self, batch: list[ExportedCustomer]) -> list[_Read]:
        read = []
        for one in batch:
            try:
                read.append((one.key, decode(one.state), one.last_seen))
            except Exception:
                # The others are exported all the same; the manifest tells how many are missing.
                log.exception("customer not exported", project_id=self._order.project_id, customer_key=one.key)
                self.unreadable += 1
        return read

    def _write_customers(self, read: list[_Read], catalog: Catalog, tokens: render.Tokens) -> None:
        made: dict[str, list[Row]] = {what: [] for what in self._of_customers}
        for key, customer, last_seen in read:
            if "transactions" in made:
                made["transactions"].extend(render.transactions(customer, catalog, key, tokens))
            if "entitlements" in made:
                made["entitlements"].extend(render.entitlements(customer, catalog, key))
            if "customers" in made:
                made["customers"].append(render.customer_row(customer, key, last_seen))
        if self.since is not None:
            made[CHANGED] = [ChangedCustomerRow(customer_key=key, deleted=False) for key, _, _ in read]
        for what, rows in made.items():
            self._files.write(what, rows)

    async def _export_events(self, database: Database, snapshot: ExportSnapshot) -> None:
        project_id, since = self._order.project_id, self.since
        first = after = since.position if since is not None else 0
        async with database.acquire() as connection:
            while batch := await storage.events(connection, project_id, after, snapshot.position, EVENTS_AT_ONCE):
                after = batch[-1].position
                await asyncio.to_thread(self._write_events, batch)
                await self._step("events", after - first, snapshot.position - first)
            after = 0
            while since is not None and (
                batch := await storage.rewritten_events(
                    connection, project_id, since.xid, after, since.position, EVENTS_AT_ONCE
                )
            ):
                after = batch[-1].position
                await asyncio.to_thread(self._write_events, batch)
                await self._step("events", 1, 1)

    def _write_events(self, batch: list[ExportedEvent]) -> None:
        made: list[Row] = []
        for one in batch:
            try:
                event = _EVENTS.decode(one.body)
            except Exception:
                # As for customers: the others are exported all the same.
                log.exception("event not exported", project_id=self._order.project_id, position=one.position)
                self.unreadable_events += 1
                continue
            place = {"position": one.position, "key": one.customer_key, "committed_at": one.committed_at}
            made.append(render.event_row(event, one.body, **place))
        self._files.write("events", made)

    async def _step(self, part: str, done: int, of: int) -> None:
        self._shares[part] = min(1.0, done / max(of, 1))
        await self._files.send()
        self._progress(sum(self._shares.values()) / len(self._shares), self._files.rows)
