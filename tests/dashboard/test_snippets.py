"""The commands that pages show for a project's first steps work as they stand, copied into a shell."""

import asyncio
import html
import os
import re

import pytest

from latchkey.subjects.accounts.rules import Role
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.api_keys import usecases as keys
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.asking import somebody
from tests.dashboard.site import Site

# Pages that are empty in a new project and say what to do first.
PAGES = ["", "/customers", "/events", "/settings", "/test-clocks", "/webhooks", "/catalog", "/catalog/products"]


async def run(script: str, key: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "bash", "-eu", "-c", script,
        env={**os.environ, "LATCHKEY_KEY": key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


def commands(site: Site, page: str) -> list[str]:
    snippets = re.findall(r'<div class="snippet"><pre tabindex="0"><code>(.*?)</code>', page, re.DOTALL)
    found = [html.unescape(one) for one in snippets]
    # The page was requested in this process, with a host name that other processes cannot resolve.
    found = [one.replace("https://dashboard.test", site.url) for one in found if "curl " in one]
    # Nothing leaves this machine.
    return [one.replace("app.example.com", "127.0.0.1") for one in found]


@pytest.mark.parametrize("path", PAGES)
async def test_the_commands_of_an_empty_project_work_as_they_stand(site: Site, path: str) -> None:
    now = site.clock.now
    project = await projects.create_project(site.database, "Brand new", now)
    key = (await keys.create_secret_key(site.database, project.id, "mine", now, scopes={"read", "write"})).plaintext
    person = await somebody(site, None)
    await team.add_member(site.database, project.id, person.email, Role.OWNER, now)
    reply = await person.get(f"/dashboard/projects/{project.id}{path}")
    assert reply.status == 200
    found = commands(site, reply.body.decode())
    assert found
    for one in found:
        # Each command names the local authority, because the machine does not trust it.
        assert one.count("--cacert ") == one.count("curl ")
        # curl ends with 22 where the service refuses.
        code, output = await run(one.replace("curl ", "curl -sS --fail-with-body "), key)
        assert code == 0, output
    if path in ("", "/customers", "/events", "/settings"):
        shown = await person.get(f"/dashboard/projects/{project.id}/customers")
        assert "alice" in shown.body.decode()
        assert ">pro<" in shown.body.decode(), "the purchase gave no entitlement"


async def test_a_project_with_products_is_shown_one_of_its_own(site: Site) -> None:
    person = await somebody(site, Role.VIEWER)
    page = (await person.get(site.path("/settings").removeprefix(site.url))).body.decode()
    found = commands(site, page)
    bought = next(one for one in found if "test_store/actions" in one)
    assert bought.count("curl") == 1, "the commands create something first"
    for one in found:
        code, output = await run(one.replace("curl ", "curl -sS --fail-with-body "), site.secret)
        assert code == 0, output
