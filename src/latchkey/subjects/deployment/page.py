"""The database of the whole deployment, for its operators: servers, sizes, standbys, the busiest projects."""

from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.subjects.deployment import usecases
from latchkey.subjects.deployment.rules import troubles

pages = Pages()

# The rest is small, and one line says how small.
TABLES, PARTITIONS = 12, 60


@pages.get("/database", Needs.OPERATE)
async def show_database(visit: Visit) -> Response:
    found = await usecases.look(visit.database, visit.now)
    rest = found.tables[TABLES:]
    return visit.page(
        "database.html",
        standing=found,
        troubles=troubles(found),
        tables=found.tables[:TABLES],
        rest=rest,
        rest_bytes=sum(table.bytes for table in rest),
        partitions=found.partitions[-PARTITIONS:],
    )
