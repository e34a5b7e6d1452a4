"""Every form of the dashboard, sent with wrong text in every field: each error is at its field, what was typed is kept,
except secrets, and nothing is changed. New forms are covered automatically."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
from bs4 import Tag
from starlette.routing import compile_path

from latchkey.dashboard.page import Page
from latchkey.process.dashboard_application import EVERY_PAGE
from latchkey.stores.adapters import CREDENTIAL_FORMS
from tests.dashboard.asking import somebody
from tests.dashboard.full_project import paths_of_a_full_project
from tests.dashboard.site import Site
from tests.dashboard.tab import Tab, _sent
from tests.http.apple import new_app
from tests.http.doings import count_rows

# No name, id, number, date, address or JSON, and longer than any of them may be.
WRONG = "\x07" + "x" * 5000
POSTS = [(page, compile_path(page.path)[0]) for page in EVERY_PAGE if page.method == "POST"]
TYPED = "textarea, input:not([type=hidden], [type=file], [type=checkbox], [type=radio])"
SECRET = re.compile("secret|password|authorization|private_key|^service_account$|api_key|proof")
# Fields in which this text is not wrong, or is looked at only when everything else is right.
FREE = {
    # Customers that do not exist are counted in the preview.
    "ids",
    # Counts only with a currency.
    "amount",
    # Counts only if messages go to Slack.
    "slack",
    # Credentials of a store are checked one after the other.
    *(field.name for form in CREDENTIAL_FORMS.values() for field in form.fields),
    # The old password is checked first.
    "new_password",
}


def leads_to(path: str) -> Page:
    return next(page for page, pattern in POSTS if pattern.match(urlsplit(path).path))


async def more_paths(site: Site) -> list[str]:
    """Of pages that need something that a full project does not have."""
    below = f"/dashboard/projects/{site.project_id}"
    apps = [(await new_app(site, store))["id"] for store in ("app_store", "play_store", "stripe")]
    hook = (await site.shown(""))["items"][0]["id"]
    member = (await site.account(await site.person())).id
    return [
        "/dashboard/account",
        "/dashboard/account/second-factor",
        f"{below}/catalog/products/coins_100",
        f"{below}/customers?status=active",
        f"{below}/team/{member}",
        *(f"{below}/webhooks/new?to={preset}" for preset in ("slack", "amplitude", "custom")),
        f"{below}/webhooks/{hook}/replays/new?since=2026-01-01&status=all",
        *(f"{below}/apps/{app}/setup" for app in apps),
    ]


async def forms(site: Site) -> AsyncIterator[tuple[Tab, str, Tag]]:
    """Each form in which something is typed, once, with where it leads."""
    person = await somebody(site, password="correct horse battery")
    seen = set()
    for path in [*await paths_of_a_full_project(site), *await more_paths(site)]:
        page = await Tab(person).open(path)
        assert page.status == 200, page
        for form in page.soup.select("main form[method=post]"):
            target = urljoin(page.path, str(form["action"]))
            key = leads_to(target).path, tuple(sorted(str(one["name"]) for one in form.select(TYPED)))
            if key[1] not in ((), ("slack",)) and key not in seen:
                seen.add(key)
                yield Tab(person), target, form


def filled(form: Tag) -> list[tuple[str, str]]:
    """Wrong wherever one types; boxes and choices as the page has them."""
    for one in form.select("[required]"):
        del one["required"]
    typed = {str(one["name"]) for one in form.select(TYPED)}
    sent = [(name, value) for name, value in _sent(form) if name not in typed]
    return [*sent, ("confirm", "yes"), *((name, WRONG) for name in typed)]


@pytest.mark.thorough
async def test_every_form_names_every_error_at_its_field_and_keeps_what_was_typed(site: Site) -> None:
    wrong, count = [], 0
    async for page, target, form in forms(site):
        before, count = await count_rows(site), count + 1
        again = await page._ask("POST", target, urlencode(filled(form)).encode())
        said = leads_to(target).path
        for one in form.select(TYPED):
            name = str(one["name"])
            secret = one.get("type") == "password" or one.has_attr("data-secret")
            if SECRET.search(name) and not secret:
                wrong.append(f"{said}: {name} is not marked as a secret")
            shown = next(
                (found for found in again.soup.select("main [aria-invalid=true]") if found["name"] == name), None
            )
            message = shown and again.soup.find(id=str(shown.get("aria-describedby", "")).split(" ")[0])
            if not (isinstance(message, Tag) and "wrong" in message.get_attribute_list("class")) and name not in FREE:
                wrong.append(f"{said}: {again.status}, no error at {name}; the page says {again.alert[:100]!r}")
            elif shown is not None and (WRONG in (str(shown.get("value", "")), shown.text.strip("\n"))) == secret:
                wrong.append(f"{said}: {name} is {'shown again' if secret else 'lost'}")
        # A wrong password is counted.
        if again.status < 400 or (await count_rows(site) != before and "password" not in str(form)):
            wrong.append(f"{said}: {again.status}, and something was changed")
        if len(again.soup.select("main [autofocus]")) != 1:
            wrong.append(f"{said}: {again.status}, the focus is not in one field")
    assert not wrong, "\n".join(wrong)
    assert count >= 40
