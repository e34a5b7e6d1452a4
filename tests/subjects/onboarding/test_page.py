"""What the overview begins with: the first steps of a new project, until they are done, and what the demo made up."""

import re

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import accounts, sessions, team
from latchkey.subjects.demo.usecases.project import add_catalog, want_history
from latchkey.subjects.onboarding.usecases import checklist
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.asking import Person, known, somebody
from tests.dashboard.site import Site
from tests.http.client import Reply
from tests.http.doings import did
from tests.patience import until

MADE_UP = b"are made up"


def done(reply: Reply) -> list[str] | None:
    """The titles of the steps that are done; None without a list."""
    assert reply.status == 200, reply
    if b"First steps" not in reply.body:
        return None
    return re.findall(r"<strong>([^<]+)</strong> <small>done", reply.body.decode())


async def test_the_steps_of_a_new_project_are_found_from_its_data_and_stay_done(site: Site) -> None:
    now = site.clock.now
    project = await projects.create_project(site.database, "Fresh", now)
    account = await accounts.create_account(site.database, "founder@example.com", now)
    await team.add_member(site.database, project.id, account.email, Role.OWNER, now)
    token = await sessions.open_session(site.database, account.id, "127.0.0.1", "a test", now)
    founder = await known(site, token)
    overview = f"/dashboard/projects/{project.id}"
    assert done(await founder.get(overview)) == []
    await add_catalog(site.database, project.id, now)
    await projects.create_app(site.database, project.id, "Web", "stripe", now, app_id="app")
    await site.database.pool.execute(
        "insert into store_connections (project_id, app_id, store, version, credentials, url_token, url_token_hash)"
        " values ($1, 'app', 'stripe', 1, 'x', 'y', 'z')",
        project.id,
    )
    found = await checklist(site.database, project.id)
    assert found is not None
    assert found.done == {"store", "product"}
    await site.database.pool.execute("delete from store_connections where project_id = $1", project.id)
    assert done(await founder.get(overview)) == ["Connect a store", "Create a product"]

    assert (await founder.post(f"{overview}/first-steps/dismiss")).status == 303
    assert done(await founder.get(overview)) is None
    assert MADE_UP not in (await founder.get(overview)).body


async def test_a_test_event_and_a_delivery_are_two_steps(site: Site) -> None:
    developer, viewer = await somebody(site, Role.DEVELOPER), await somebody(site, Role.VIEWER)
    overview = f"/dashboard/projects/{site.project_id}"
    assert done(await viewer.get(overview)) is None, "it is for those who can do the steps"
    hook = (await site.hook("/", name="Billing"))["id"]
    assert done(await developer.get(overview)) == ["Create a product"]
    await did(site, "purchase", "somebody", "pro_monthly")

    async def delivered() -> bool:
        found = await checklist(site.database, site.project_id)
        return found is not None and "delivery" in found.done

    await until(delivered)
    assert done(await developer.get(overview)) == ["Create a product", "See a delivery"]
    await _test(developer, f"{overview}/webhooks/{hook}/test")
    assert done(await developer.get(overview)) == ["Create a product", "Send a test event", "See a delivery"]


async def test_the_demo_says_what_is_made_up(site: Site) -> None:
    viewer = await somebody(site, Role.VIEWER)
    overview = f"/dashboard/projects/{site.project_id}"
    assert MADE_UP not in (await viewer.get(overview)).body
    await want_history(site.database, site.project_id, site.clock.now)
    assert MADE_UP in (await viewer.get(overview)).body


async def _test(person: Person, path: str) -> None:
    reply = await person.post(path, {"type": "RENEWAL"})
    assert reply.status == 200, reply
