"""A distributed database, as far as it can be tested without one: the lists of tables and statements are complete, and
statements can be made into functions. `tests/citus` asks a real cluster."""

import re

import asyncpg
import pytest

from latchkey.database.distribution import result_merge as merging
from latchkey.database.distribution.distribute import require_cluster
from latchkey.database.distribution.functions import direct_call, function, template, wanted
from latchkey.database.distribution.result_merge import HANDLERS
from latchkey.database.distribution.statements import (
    TABLES,
    Apart,
    AtProject,
    AtWebhook,
    ByProject,
    Home,
    Route,
    UnfitStatementError,
    route,
    routes,
)
from latchkey.database.errors import DistributionError
from latchkey.database.migrate import commands, migrations
from latchkey.database.sql import query
from tests.connections import connected

SCHEMA = "".join(migration.text for migration in migrations())


def test_every_table_has_its_place() -> None:
    made = set(re.findall(r"^create (?:unlogged )?table ([a-z_]+)", SCHEMA, re.MULTILINE))

    assert made | {"schema_migrations"} == set(TABLES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select name from projects where id = $1", Home()),
        ("select id from customers where project_id = $1", AtProject()),
        ("select id from customers where id = $1 and project_id = $2", AtProject(2)),
        ("insert into feeds (project_id) values ($1)", AtProject()),
        ("delete from lanes where webhook_key = $2", AtWebhook(2)),
        (
            "select from unnest($2::text[], $3::bigint[]) as a (project_id, id) join customers using (project_id, id)",
            ByProject(((2, 3),)),
        ),
        (
            "insert into aliases (project_id, app_user_id, customer_id) select * from unnest($1::text[], $2::text[])",
            ByProject(((1, 2),)),
        ),
    ],
)
def test_where_a_statement_runs_follows_from_its_text(text: str, expected: Route) -> None:
    assert route("made up", text) == expected


def test_a_statement_of_rows_by_project_that_names_no_project_is_refused() -> None:
    with pytest.raises(UnfitStatementError, match="names neither its project"):
        route("made up", "select count(*) from customers")


def test_statements_that_are_not_sent_have_something_in_their_place() -> None:
    assert {name for name, route in routes().items() if isinstance(route, Apart)} <= set(HANDLERS) <= set(routes())


@pytest.mark.parametrize("name", sorted(set(wanted()) - {"write_changes"}))
def test_a_statement_of_a_project_names_no_table_that_other_nodes_lack(name: str) -> None:
    # Raises where it uses a local table, or writes a reference table, whose copies would differ then.
    shards = set(re.findall(r"@([a-z_]+)@", template(name, query(name))))

    assert not isinstance(routes()[name], Home) or all(TABLES[table] == "reference" for table in shards)


def test_what_is_inserted_on_a_shard_names_its_identity_column() -> None:
    """Tables of shards have no default for it."""
    begins = SCHEMA.index("create function write_changes")
    bodies = {"write_changes": SCHEMA[begins : SCHEMA.index("end $$;", begins)]}
    tables = re.findall(r"^create table ([a-z_]+) \((.*?)^\)", SCHEMA, re.MULTILINE | re.DOTALL)
    identities = {
        table: found[1]
        for table, columns in tables
        if TABLES[table] == "by project" and (found := re.search(r"^ +(\w+) bigint generated", columns, re.MULTILINE))
    }
    assert {"customers", "facet_marks"} <= set(identities)
    for name in wanted():
        made = template(name, bodies.get(name) or query(name))
        for table, columns in re.findall(r"insert into @([a-z_]+)@ \(([^)]*)\)", made):
            assert table not in identities or identities[table] in re.split(r"[,\s]+", columns), (name, table)


def test_a_statement_that_writes_a_copy_of_a_reference_table_is_refused() -> None:
    with pytest.raises(UnfitStatementError, match="every node has a copy"):
        template("customer_state", "update projects set name = $2 where id = $1")
    with pytest.raises(UnfitStatementError, match="which is local"):
        template("customer_state", "select from sessions")


def test_a_node_is_asked_itself_without_the_project_that_only_citus_needs() -> None:
    made = function("customer_state", "select $1, $2", ["text", "int8"], [("a", "int4"), ("b", "int4")])

    assert direct_call(made.call).format(shard=102008) == (
        f'select c1 as "a", c2 as "b" from at_shard.{made.label}_102008($1, $2) where at_node.serves(102008)'
    )
    assert "_7() where" in direct_call(function("customer_state", "select 1", [], [("a", "int4")]).call).format(shard=7)


def test_arguments_are_taken_apart_by_project_and_rows_put_together() -> None:
    route = ByProject(((1, 2),), in_order=True)
    args = (["b", "a", "b"], [1, 2, 3], "all")

    parts = [merging.part(route, args, project) for project in merging.projects(route, args)]

    assert parts == [([["a"], [2], "all"], [1]), ([["b", "b"], [1, 3], "all"], [0, 2])]
    assert merging.together(route, [(places, own[1]) for own, places in parts]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ('duplicate key value violates unique constraint "aliases_pkey_102008"', asyncpg.UniqueViolationError),
        ("canceling the transaction since it was involved in a distributed deadlock", asyncpg.SerializationError),
        ('insert violates foreign key constraint "customers_1"', asyncpg.ForeignKeyViolationError),
        ("out of shared memory", asyncpg.InternalServerError),
    ],
)
def test_an_error_that_a_worker_reports_in_words_is_what_it_says(words: str, kind: type[Exception]) -> None:
    assert type(merging.as_collision(asyncpg.InternalServerError(words))) is kind


def test_a_file_is_divided_into_its_commands() -> None:
    text = "-- a; b\ncreate table a (b text default ';');\ncreate function f() as $$ begin; end; $$;\n-- the end;\n"

    assert commands(text) == [
        "-- a; b\ncreate table a (b text default ';')",
        "create function f() as $$ begin; end; $$",
    ]


async def test_a_database_without_citus_is_not_distributed(database_url: str) -> None:
    async with connected(asyncpg.connect(database_url)) as connection:
        with pytest.raises(DistributionError, match="Citus is not installed"):
            await require_cluster(connection)
