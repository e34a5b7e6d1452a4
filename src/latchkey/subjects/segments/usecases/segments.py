"""Segments: filters of customer lists that a project has saved under a name, with their columns and order."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.subjects.segments.rules.filter import CustomerFilter, Sort, parse, written
from latchkey.subjects.segments.storage import list_rows
from latchkey.subjects.segments.storage.list_rows import StoredSegment
from latchkey.subjects.segments.usecases.customer_lists import COLUMNS, chosen

LONGEST_NAME = 100
MOST_SEGMENTS = 200


@dataclass(frozen=True, slots=True)
class Segment:
    id: str
    name: str
    filter: CustomerFilter
    columns: tuple[str, ...]
    sort: Sort
    created_at: Ms
    updated_at: Ms


async def list_segments(
    database: Database, project_id: str, after: str | None = None, limit: int = MOST_SEGMENTS
) -> list[Segment]:
    """By id."""
    async with database.acquire() as connection:
        return [_read(one) for one in await list_rows.page_segments(connection, project_id, after, limit)]


async def load_segment(database: Database, project_id: str, id: str) -> Segment:
    async with database.acquire() as connection:
        found = await list_rows.load(connection, project_id, id)
    if found is None:
        raise NotFound(f"There is no segment {id!r}.", param="segment_id")
    return _read(found)


async def save_segment(
    database: Database, project_id: str, name: str, wanted: CustomerFilter, columns: Sequence[str], sort: Sort, now: Ms
) -> Segment:
    """Saved under a name that exists, in any case of letters, it replaces what was saved there."""
    name = checked_name(name)
    if len(name) > LONGEST_NAME:
        raise Invalid(f"The name of a segment has at most {LONGEST_NAME} characters.", param="name")
    if wanted.is_empty:
        raise Invalid("A segment needs a filter. Without one it is the list of all customers.", param="filter")
    async with database.transaction() as connection:
        saved = await list_rows.save(
            connection, project_id, f"seg_{uuid4().hex[:24]}", name, written(wanted), chosen(columns), sort, now
        )
        if len(await list_rows.page_segments(connection, project_id, None, MOST_SEGMENTS + 1)) > MOST_SEGMENTS:
            raise Refusal(f"A project has at most {MOST_SEGMENTS} segments. Delete one first.")
    return _read(saved)


async def delete_segment(database: Database, project_id: str, id: str) -> None:
    async with database.acquire() as connection:
        if not await list_rows.delete(connection, project_id, id):
            raise NotFound(f"There is no segment {id!r}.", param="segment_id")


def _read(stored: StoredSegment) -> Segment:
    """A later release may have saved columns that this one does not know, and an earlier one a `product_active` without
    a product, which means nothing."""
    alone = "product_id" not in stored.filter
    return Segment(
        stored.id,
        stored.name,
        parse({name: text for name, text in stored.filter.items() if not (alone and name == "product_active")}),
        chosen(name for name in stored.columns if name in COLUMNS),
        Sort(stored.sort) if stored.sort in set(Sort) else Sort.LAST_SEEN,
        stored.created_at,
        stored.updated_at,
    )
