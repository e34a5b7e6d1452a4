"""The facts computed from all customers, to compare with the stored ones."""

from __future__ import annotations

from uuid import UUID

from latchkey.domain.charts.fact import Dimensions, Fact, Money
from latchkey.domain.charts.facts.of_customer import facts_of
from latchkey.domain.charts.facts.subject import Origin, subjects_of
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.charts import subjects
from latchkey.storage.charts.kinds import KINDS
from latchkey.storage.customers.state_format import decode
from latchkey.storage.database import Database
from latchkey.usecases.charts.books import Contributed, pseudonym
from latchkey.usecases.engine.changes import load_projects

Books = dict[UUID, Contributed]


async def kept(database: Database, project_id: str) -> Books:
    """What the tables say each subject contributed. Subjects without facts are left out."""
    rows = await database.pool.fetch("select * from chart_dimensions where project_id = $1", project_id)
    combinations = {row["id"]: row for row in rows}
    books: Books = {}
    for row in await database.pool.fetch("select * from chart_subjects where project_id = $1", project_id):
        facts, environment = [], ""
        for kind, at, n, currency, dimension, quantity, *money in subjects.decode(row["facts"]):
            of = combinations[dimension]
            environment = of["environment"]
            plain = (of[name] for name in Dimensions._fields[:7])
            dimensions = Dimensions._make([*plain, tuple(of["variants"]), tuple(of["attributes"])])
            facts.append(Fact(KINDS[kind], at, n, currency, quantity, Money(*money), dimensions))
        origin = combinations[row["origin"]]
        if facts:
            came = Origin(origin["platform"], origin["app_version"], origin["country"])
            books[row["subject"]] = Contributed(environment, came, sorted(facts))
    return books


async def worked_out(database: Database, project_id: str, known: Books) -> Books:
    """What the customers of the project contribute, with the origins and billing issues that are stored."""
    books: Books = {}
    async with database.acquire() as connection:
        catalog = (await load_projects(connection, Catalogs(), {project_id}))[project_id].catalog
        rows = await connection.fetch("select state from customers where project_id = $1", project_id)
        for row in rows:
            customer = decode(row["state"])
            environments = subjects_of(customer)
            stored = await subjects.known(connection, {(project_id, pseudonym(key)) for key in environments})
            found = {key: stored.get((project_id, pseudonym(key))) for key in environments}
            facts = facts_of(
                customer,
                catalog,
                origins={key: one.origin for key, one in found.items() if one is not None and one.origin is not None},
                issues={key: one.issues for key, one in found.items() if one is not None},
                attributes=catalog.chart_attributes,
                erased={
                    key: one.erased_to for key, one in found.items() if one is not None and one.erased_to is not None
                },
            )
            for key, of in facts.items():
                subject = pseudonym(key)
                origin = known[subject].origin if subject in known else Origin()
                if of:
                    books[subject] = Contributed(environments[key], origin, sorted(of))
    return books


async def agree(database: Database, project_id: str) -> Books:
    """Check that the stored facts equal the computed ones. Returns them, with those of erased customers."""
    books = await kept(database, project_id)
    anew = await worked_out(database, project_id, books)
    wrong = {subject: (books.get(subject), one) for subject, one in anew.items() if books.get(subject) != one}
    assert not wrong, wrong
    return books
