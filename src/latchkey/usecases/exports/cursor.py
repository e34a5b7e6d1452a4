"""The place where an export ended and the next increment begins.

No row may be missed by a series of increments, whatever was being written while each of them ran. So a cursor is not a
time: a transaction that began before it may commit after it. It is what PostgreSQL knows for certain:

- events have positions without gaps, in the order of commits;
- every other row carries the id of the transaction that wrote it. The cursor holds the oldest transaction that was
  still running (`xid`). The next export takes every row written by that transaction or a later one. Rows of
  transactions that the first export saw already are exported twice, and none is missed.

Transaction ids mean nothing in another database, or in one that was set back to a backup. `epoch` tells.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256

from msgspec import MsgspecError, Struct, json

from latchkey.domain.catalog import Catalog
from latchkey.domain.refusal import Invalid
from latchkey.storage.exports.reading import Snapshot

_PREFIX = "lk1."
# Rows keep 32 bits of a transaction id. With fewer transactions than this since the cursor they are unambiguous.
_REACH = 2**31


class Cursor(Struct, frozen=True):
    project_id: str
    epoch: str
    xid: int
    position: int
    # What the catalog granted: see `grants_of`.
    grants: str

    def text(self) -> str:
        return _PREFIX + base64.urlsafe_b64encode(json.encode(self)).decode().rstrip("=")


_DECODER = json.Decoder(Cursor)


def parse(text: str) -> Cursor:
    try:
        encoded = text.strip().removeprefix(_PREFIX)
        return _DECODER.decode(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (MsgspecError, binascii.Error, ValueError) as error:
        raise Invalid(
            "That is not the cursor of an export. It is in the export's manifest.json.", param="since"
        ) from error


def cursor_at(project_id: str, snapshot: Snapshot, catalog: Catalog) -> Cursor:
    return Cursor(project_id, snapshot.epoch, snapshot.oldest_xid, snapshot.position, grants_of(catalog))


def problem_with(cursor: Cursor, project_id: str, snapshot: Snapshot) -> str | None:
    """Why no increment can begin at this cursor; None if one can."""
    if cursor.project_id != project_id:
        return "the cursor is of another project"
    if cursor.epoch != snapshot.epoch:
        return "the database was moved or restored since the last export"
    ahead = cursor.xid > snapshot.next_xid or cursor.position > snapshot.position
    if ahead or snapshot.next_xid - cursor.xid >= _REACH:
        return "the last export is not of this database, or too long ago"
    return None


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
