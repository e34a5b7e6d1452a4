"""The page about the database of the whole deployment: for operators, whoever owns what."""

import pytest
from msgspec.structs import replace

from latchkey.domain.instants import HOUR
from latchkey.domain.refusal import Refusal
from latchkey.subjects.accounts import rules as accounts_rules
from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import accounts, team
from latchkey.subjects.accounts.usecases import team as operators
from latchkey.subjects.deployment import usecases as standing
from latchkey.subjects.deployment.rules import (
    DeploymentReport,
    HotProject,
    ListsReport,
    Node,
    OpenTransaction,
    PartitionReport,
    Slot,
    Standby,
    Table,
)
from tests.dashboard.asking import Person, somebody
from tests.dashboard.site import Site
from tests.dashboard.tab import Tab
from tests.subjects.deployment.test_rules import QUIET, SERVER

HERE = "/dashboard/database"


async def made_operator(site: Site, person: Person) -> accounts_rules.Account:
    account = await site.account(person.email)
    await operators.set_operator(site.database, account, site.clock.now)
    return account


async def test_no_role_in_a_project_shows_it_and_the_grant_does(site: Site) -> None:
    owner = await somebody(site, Role.OWNER)
    refused = await owner.get(HERE)
    assert refused.status == 403
    assert f"latchkey user operator {owner.email}".encode() in refused.body
    assert HERE.encode() not in (await owner.get(f"/dashboard/projects/{site.project_id}")).body
    account = await made_operator(site, owner)
    shown = await owner.get(HERE)
    assert shown.status == 200
    assert site.project_id.encode() in shown.body
    assert HERE.encode() in (await owner.get(f"/dashboard/projects/{site.project_id}")).body
    await operators.set_operator(site.database, account, None)
    assert (await owner.get(HERE)).status == 403


async def test_an_owner_cannot_become_an_operator_by_a_link(site: Site) -> None:
    """A link to choose an operator's password would give its holder what the operator sees."""
    owner, member = await somebody(site, Role.OWNER), await somebody(site, Role.VIEWER)
    known, target = await site.account(owner.email), await site.account(member.email)
    now = site.clock.now
    # A link that was made before the grant stops working with it.
    _, before = await team.new_link(site.database, site.project_id, target.id, known.id, now)
    await made_operator(site, member)
    assert await accounts.invited(site.database, before, now) is None
    with pytest.raises(Refusal, match="operator"):
        await team.new_link(site.database, site.project_id, target.id, known.id, now)
    await made_operator(site, owner)
    await team.new_link(site.database, site.project_id, target.id, known.id, now)


TROUBLED = replace(
    SERVER,
    oldest=OpenTransaction("psql", "idle in transaction", 2 * HOUR),
    slots=(Slot("left", False, 3 * 1024**3),),
)
CLUSTER = DeploymentReport(
    server=SERVER,
    tables=[
        Table("events", 30_000_000, 24 * 1024**3, 150_000, partitions=2, place="by project"),
        Table("products", 120, 81920, 0, place="on every node"),
        Table("audit_entries", None, 8192, 0, place="coordinator"),
    ],
    partitions=[
        PartitionReport("events", "events_2026_10", "FOR VALUES FROM ('1') TO ('2')", 20_000_000, 16 * 1024**3),
        PartitionReport("events", "events_2026_11", "FOR VALUES FROM ('2') TO ('3')", 10_000_000, 8 * 1024**3),
    ],
    standbys=[
        Standby("beta", "10.0.0.2", "streaming", "sync", 5, 4096),
        Standby("<b>gamma</b>", "", "streaming", "async", None, 0),
    ],
    synchronous="beta",
    projects=[
        HotProject("proj_1", "Ann's shop", 30_000_000, 250_000, 9_000_000, 18 * 1024**3, "db2.internal:5432", 0),
        HotProject("proj_2", "Small shop", 3_000, 25, 900, 1024**2, "db3.internal:5432", 41),
    ],
    citus="14.0-1",
    nodes=[
        Node(1, "db1.internal", 5432, "coordinator", SERVER),
        Node(2, "db2.internal", 5432, "worker", SERVER, shards=512, shard_bytes=20 * 1024**3),
        Node(3, "db3.internal", 5432, "worker", None, "connection refused", shards=512),
    ],
    lists=ListsReport(1_200, 90_000, customers=1_000, more=True, bytes=5 * 1024**3),
)


async def test_a_cluster_is_shown_whole_and_its_troubles_first(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [CLUSTER, replace(QUIET, server=TROUBLED)]

    async def look(*_: object) -> DeploymentReport:
        return reports.pop(0)

    monkeypatch.setattr(standing, "look", look)
    owner = await somebody(site, Role.OWNER)
    await made_operator(site, owner)
    page = await Tab(owner).open(HERE)
    assert "the node db3.internal:5432 does not answer" in page.text()
    nodes, hottest, lists = (f'[aria-label="{name}"]' for name in ("Nodes", "Busiest projects", "Customer lists"))
    assert "db2.internal:5432 worker up 18.1" in page.row("db2.internal:5432", nodes)
    assert page.text(nodes).count("does not answer") == 1
    assert "db2.internal:5432" in page.row("Ann's shop", hottest)
    assert "1,000 or more" in page.row("1,200", lists)
    assert "events_2026_11" in page.text()
    assert "<b>gamma</b>" in page.text()
    shown = (await owner.get(HERE)).body.decode()
    assert "vacuum cannot remove old rows" in shown
    assert "pg_drop_replication_slot" in shown
    assert "left</bdi>: not in use, 3.0 GiB of log" in shown


async def test_one_server_without_anything_special_is_shown_without_troubles(site: Site) -> None:
    owner = await somebody(site, Role.OWNER)
    await made_operator(site, owner)
    shown = (await owner.get(HERE)).body.decode()
    assert "on one server" in shown
    assert "This server has no standby" in shown
    assert "Nodes</h2>" not in shown
    assert 'class="notice' not in shown
