"""What about a database needs an operator."""

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import HOUR, MINUTE, SECOND
from latchkey.subjects.deployment.rules import (
    DeploymentReport,
    ListsReport,
    Node,
    OpenTransaction,
    ServerReport,
    Slot,
    Standby,
    Table,
    troubles,
)

GIB = 1024**3
SERVER = ServerReport(
    version="18.1",
    is_standby=False,
    bytes=GIB,
    started_at=0,
    connections=20,
    most_connections=97,
    oldest=OpenTransaction("latchkey api", "active", 3 * SECOND),
    prepared=0,
    prepared_age=0,
    unfrozen_age=50_000_000,
)
QUIET = DeploymentReport(
    server=SERVER,
    tables=[Table("events", 1_000_000, GIB, 150_000)],
    partitions=[],
    standbys=[Standby("beta", "10.0.0.2", "streaming", "sync", 5, 4096)],
    synchronous="beta",
    projects=[],
)


def test_a_healthy_database_needs_nobody() -> None:
    assert troubles(QUIET) == []
    assert troubles(replace(QUIET, standbys=[], synchronous="")) == []


@pytest.mark.parametrize(
    ("server", "said", "grave"),
    [
        (replace(SERVER, connections=90), "90 of 97 connections", False),
        (replace(SERVER, connections=97), "97 of 97 connections", True),
        (
            replace(SERVER, oldest=OpenTransaction("psql", "idle in transaction", 2 * HOUR)),
            "psql is open for 120 minutes (idle in transaction)",
            False,
        ),
        (replace(SERVER, prepared=3, prepared_age=20 * MINUTE), "3 two-phase commits", True),
        (replace(SERVER, unfrozen_age=1_500_000_000), "1,500 million transactions old", True),
        (replace(SERVER, slots=(Slot("left", False, 3 * GIB),)), "the replication slot left", True),
    ],
)
def test_a_server_in_trouble_says_what_and_how_bad(server: ServerReport, said: str, grave: bool) -> None:
    (alone,) = troubles(replace(QUIET, server=server))
    assert said in alone.words
    assert (alone.mark == "bad") is grave
    assert alone.remedy
    # The same server as a node of a cluster is named.
    nodes = [Node(1, "db1", 5432, "coordinator", SERVER), Node(2, "db2", 5432, "worker", server)]
    (of_node,) = troubles(replace(QUIET, nodes=nodes))
    assert said in of_node.words
    assert "db2:5432" in of_node.words


@pytest.mark.parametrize(
    "server",
    [
        replace(SERVER, oldest=None),
        replace(SERVER, prepared=3, prepared_age=SECOND),
        replace(SERVER, slots=(Slot("standby", True, 3 * GIB), Slot("new", False, 1024))),
    ],
)
def test_what_passes_by_itself_is_no_trouble(server: ServerReport) -> None:
    assert troubles(replace(QUIET, server=server)) == []


def test_a_node_that_does_not_answer_is_grave() -> None:
    nodes = [
        Node(1, "db1", 5432, "coordinator", SERVER),
        Node(2, "db2", 5432, "worker", None, problem="connection refused"),
    ]
    (found,) = troubles(replace(QUIET, nodes=nodes))
    assert found.mark == "bad"
    assert "db2:5432 does not answer: connection refused" in found.words


@pytest.mark.parametrize(
    ("table", "is_trouble"),
    [
        (Table("lanes", 1_000, GIB, 99_999), False),
        (Table("lanes", 1_000, GIB, 100_000), True),
        (Table("lanes", None, GIB, 100_000), True),
        (Table("events", 10_000_000, GIB, 2_000_000), False),
        (Table("events", 10_000_000, GIB, 4_000_000), True),
    ],
)
def test_dead_rows_are_trouble_when_vacuum_does_not_keep_up(table: Table, is_trouble: bool) -> None:
    assert [one.about for one in troubles(replace(QUIET, tables=[table]))] == ["autovacuum"] * is_trouble


@pytest.mark.parametrize(
    ("standbys", "synchronous", "said"),
    [
        ([], "beta", "no such standby is connected"),
        ([Standby("gamma", "", "streaming", "async", 0, 0)], "beta", "no such standby is connected"),
        ([Standby("beta", "", "streaming", "async", 90 * SECOND, 0)], "", "is 90 s and 0 MiB behind"),
        ([Standby("beta", "", "catchup", "sync", None, 2 * GIB)], "beta", "0 s and 2,048 MiB behind"),
    ],
)
def test_standbys_that_are_missing_or_behind_are_trouble(standbys: list[Standby], synchronous: str, said: str) -> None:
    (found,) = troubles(replace(QUIET, standbys=standbys, synchronous=synchronous))
    assert found.about == "replication"
    assert said in found.words


def test_what_the_database_user_may_not_see_is_no_trouble() -> None:
    hidden = [Standby("beta", "", None, None, None, None)]
    assert troubles(replace(QUIET, standbys=hidden)) == []


@pytest.mark.parametrize(
    ("lag", "said"),
    [
        (4 * MINUTE, []),
        (6 * MINUTE, ["1,200 events are not in the customer lists yet; the first has waited for 6 minutes"]),
    ],
)
def test_customer_lists_that_do_not_follow_are_trouble(lag: int, said: list[str]) -> None:
    lists = ListsReport(1_200, lag, customers=0, more=False, bytes=GIB)
    assert [one.words for one in troubles(replace(QUIET, lists=lists))] == said
