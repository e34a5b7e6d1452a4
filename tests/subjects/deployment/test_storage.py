"""What operators see of the database, read without counting rows."""

import pytest

from latchkey.database.pool import Database
from latchkey.domain.instants import DAY
from latchkey.subjects.deployment import storage as looking
from latchkey.subjects.deployment import usecases as standing
from tests.http.client import NOW

EVENTS = """
insert into events (project_id, position, id, customer_id, sequence, type, environment, occurred_at, committed_at, body)
select $1, place, $1 || place, place, 1, 'RENEWAL', 'PRODUCTION', at, at, '{}'
from unnest($2::bigint[], $3::bigint[]) as n (place, at)
"""


async def project(database: Database, name: str, events: list[tuple[int, int]], head: int | None = None) -> None:
    """A project with these events: position and instant."""
    async with database.transaction() as connection:
        await connection.execute("insert into projects (id, name, created_at) values ($1, $1, 0)", name)
        await connection.execute(EVENTS, name, [place for place, _ in events], [at for _, at in events])
        position = head if head is not None else max((place for place, _ in events), default=0)
        await connection.execute(
            "insert into feeds (project_id, position) values ($1, $2)"
            " on conflict (project_id) do update set position = excluded.position",
            name, position,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("events", "head", "since", "found"),
    [
        ([], 0, 100, 0),
        ([(1, 50)], None, 100, 0),
        ([(1, 100)], None, 100, 1),
        ([(place, place * 10) for place in range(1, 1001)], None, 5_005, 500),
        ([(place, place * 10) for place in range(1, 1001)], None, 0, 1_000),
        ([(place, place * 10) for place in range(1, 1001)], None, 10_001, 0),
        # Old events were removed.
        ([(place, place * 10) for place in range(900, 1001)], None, 9_905, 10),
        # All were removed.
        ([], 1_000, 5, 0),
    ],
)
async def test_events_since_an_instant_are_found_by_halving(
    database: Database, events: list[tuple[int, int]], head: int | None, since: int, found: int
) -> None:
    await project(database, "p", events, head)
    await project(database, "another", [(place, 1_000_000) for place in range(1, 50)])
    async with database.acquire() as connection:
        assert await looking.events_since(connection, "p", since) == found


@pytest.mark.one_server("tests/citus/test_deployment.py does the same there")
async def test_a_look_at_one_server_names_no_nodes(database: Database) -> None:
    found = await standing.look(database, NOW)
    assert (found.citus, list(found.nodes), list(found.standbys)) == ("", [], [])


async def test_a_look_names_server_tables_and_the_projects_with_the_most_events_of_the_last_day(
    database: Database,
) -> None:
    await project(database, "quiet", [(place, NOW - 2 * DAY) for place in range(1, 101)])
    await project(database, "busy", [(place, NOW - 60_000) for place in range(1, 31)])
    await project(database, "empty", [])
    # The lists have read nothing of "busy".
    await database.pool.execute("insert into facet_rolls (project_id, position) values ('busy', 0), ('quiet', 100)")
    await database.pool.execute(
        "insert into customers"
        " (project_id, id, app_user_id, state, first_seen_at, last_seen_at)"
        " values ('busy', 900, 'a', '{}', 0, 0), ('busy', 901, 'b', '{}', 0, 0)"
    )
    found = await standing.look(database, NOW)
    assert found.server.version.partition(".")[0].isdigit()
    assert not found.server.is_standby
    assert 0 < found.server.connections < found.server.most_connections
    assert found.bytes > 1_000_000
    sizes = [table.bytes for table in found.tables]
    assert sizes == sorted(sizes, reverse=True)
    assert {"events", "customers", "rate_windows"} <= {table.name for table in found.tables}
    shown = [(one.id, one.lately, one.events, one.customers) for one in found.projects]
    assert shown == [("busy", 30, 30, 2), ("quiet", 0, 100, 0), ("empty", 0, 0, 0)]
    busy, quiet, empty = (one.bytes or 0 for one in found.projects)
    assert quiet > 0
    # In a distributed database it is the size of the project's shard.
    assert busy >= empty if database.is_distributed else busy > empty == 0
    lists = found.lists
    assert lists is not None
    assert (lists.behind, lists.lag, lists.customers, lists.more) == (30, 60_000, 2, False)
    assert 0 < lists.bytes < found.bytes


async def test_partitions_are_added_up_in_their_table(database: Database) -> None:
    async with database.acquire() as connection, connection.transaction() as _:
        await connection.execute(
            "create table parted (at bigint) partition by range (at);"
            "create table parted_1 partition of parted for values from (0) to (10);"
            "create table parted_2 partition of parted for values from (10) to (20);"
            "insert into parted select i from generate_series(0, 19) i;"
            "analyze parted_1"
        )
        tables, partitions = await looking.tables(connection)
        (table,) = [table for table in tables if table.name.startswith("parted")]
        await connection.execute("drop table parted")
    assert (table.name, table.partitions, table.rows) == ("parted", 2, 10)
    assert table.bytes == sum(one.bytes for one in partitions if one.table == "parted") > 0
    ours = [one for one in partitions if one.table == "parted"]
    assert [one.name for one in ours] == ["parted_1", "parted_2"]
    assert "('0') TO ('10')" in ours[0].bounds


async def test_an_open_transaction_and_a_slot_are_seen(database: Database) -> None:
    async with database.transaction() as other:
        await other.fetchval("select txid_current()")
        async with database.acquire() as connection:
            server = await looking.server(connection)
    assert server.oldest is not None
    assert server.oldest.application == "latchkey"
    assert server.oldest.state == "idle in transaction"
    assert list(server.slots) == []
    assert server.prepared == 0
