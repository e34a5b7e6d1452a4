"""Segments: filters of customer lists that a project has saved under a name, with their columns and order."""

from collections.abc import Sequence
from uuid import uuid4

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Invalid, Refusal
from latchkey.subjects.segments import storage
from latchkey.subjects.segments.rules.filter import CustomerFilter, Segment, Sort
from latchkey.subjects.segments.storage import SEGMENTS
from latchkey.subjects.segments.usecases.customer_lists import chosen

LONGEST_NAME = 100
MOST_SEGMENTS = 200


list_segments = SEGMENTS.page
load_segment = SEGMENTS.get


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
        saved = await storage.save(
            connection, project_id, f"seg_{uuid4().hex[:24]}", name, wanted, chosen(columns), sort, now
        )
        if len(await SEGMENTS.page(connection, project_id, limit=MOST_SEGMENTS + 1)) > MOST_SEGMENTS:
            raise Refusal(f"A project has at most {MOST_SEGMENTS} segments. Delete one first.")
    return saved


async def delete_segment(database: Database, project_id: str, id: str) -> None:
    if not await storage.delete(database, project_id, id):
        raise SEGMENTS.missing(id)
