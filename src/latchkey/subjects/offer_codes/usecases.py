"""The offer codes that customers have redeemed, and who has."""

from latchkey.database.pool import Database
from latchkey.domain.pages import items_after
from latchkey.domain.refusal import found
from latchkey.subjects.offer_codes import storage
from latchkey.subjects.offer_codes.rules import OfferCode, OfferCodeUse

MOST_CODES = 1_000
MOST_USES = 100


async def list_codes(
    database: Database, project_id: str, after: str | None = None, limit: int = MOST_CODES
) -> list[OfferCode]:
    """The newest first: a code that is used keeps its place between two pages. Of more than MOST_CODES, those that were
    used last."""
    every = await storage.list_codes(database, project_id, MOST_CODES)
    every.sort(key=lambda code: (-code.first_used_at, code.id))
    return items_after(after, every, "offer code", lambda code: code.id)[:limit]


async def load_uses(database: Database, project_id: str, id: str) -> tuple[OfferCode, list[OfferCodeUse]]:
    """A code, and its latest MOST_USES uses."""
    code = next((one for one in await list_codes(database, project_id) if one.id == id), None)
    code = found(code, f"Nobody has redeemed an offer code {id!r} in this project.", "offer_code_id")
    of_code = code.offer_code, code.store, code.environment == "sandbox"
    return code, await storage.list_uses(database, project_id, *of_code, MOST_USES)
