"""How far a roller has counted the customers of a project by their keys (usecases/rolling/newcomers.py)."""

from __future__ import annotations

from msgspec import Struct

from latchkey.domain.instants import Ms


class Count(Struct, frozen=True):
    """Customers up to key `counted` are counted; those up to `mark_id` are next."""

    counted: int
    mark_id: int | None
    mark_xid: int | None
    marked_at: Ms | None


class Seen(Struct, frozen=True):
    """What the transaction of a batch sees of a project's customers and of other transactions."""

    # The highest key of a customer; 0 if there is none.
    newest: int
    # Its own transaction id: higher than that of every transaction that had changed anything before the batch began.
    xid: int
    # Every transaction before this one has ended.
    oldest_xid: int


class Stretch(Struct, frozen=True):
    """Customers to count: those with keys after `counted`, up to `until`."""

    project_id: str
    counted: int
    until: int


class Counted(Struct, frozen=True):
    customers: int
    # The highest key that was counted.
    last: int
