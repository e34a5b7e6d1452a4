"""What a refused form looks like when it is shown again: messages at their fields, focus, what was typed."""

import re
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Browser, expect

from latchkey.dashboard.form import Form
from latchkey.dashboard.refused_form import RefusedForm
from latchkey.domain.refusal import Checks, Invalid, NotFound, Refusal
from latchkey.subjects.accounts.rules import Role
from tests.dashboard.site import Site, visiting
from tests.dashboard.tab import tab

PAGE = """<!doctype html><html><body><main>
<form method="post" action="/other"><input name="name" value="of another form"></form>
<form method="post" action="/here"><input type="hidden" name="csrf" value="token">
<div class="field"><label for="f-name">Name</label>
<input id="f-name" name="name" value="before" aria-describedby="h-name" autofocus required>
<p class="hint" id="h-name">A hint &amp; more</p></div>
<details><summary>More</summary><p class="field">
<select name="kind"><option>one</option><option value="two" selected>Two</option></select></p></details>
<fieldset><legend>Apps</legend><label><input type="checkbox" name="app" value="a"> a</label>
<label><input type="checkbox" name="app" value="b" checked> b</label></fieldset>
<fieldset><legend>Role</legend><label><input type="radio" name="role" value="x"> x</label></fieldset>
<label>Loose <input name="loose" data-param="other_name third"></label>
<textarea name="text"></textarea>
<input type="password" name="password"><input name="token" data-secret value=""><button>Save</button></form>
</main></body></html>"""
SENT = [("name", 'ty"ped <b>'), ("kind", "one"), ("app", "a"), ("text", "\nlines\n<i>"), ("csrf", "token")]
SENT += [("token", "s3cret"), ("password", "s3cret")]


def shown(*refusals: Refusal, sent: list[tuple[str, str]] = SENT) -> Any:
    return BeautifulSoup(RefusedForm(PAGE, "POST", "/here", Form(sent), refusals).html, "html.parser").select("form")[1]


def message_at(form: Tag, name: str) -> str:
    """What a screen reader says first after the name of the field."""
    control = form.select_one(f"[name={name}]")
    assert control is not None
    said = form.find(id=str(control.get("aria-describedby", "")).split(" ")[0])
    return said.text if isinstance(said, Tag) and "wrong" in said["class"] else ""


@pytest.mark.parametrize("name", ["name", "kind", "app", "role", "loose", "text", "password", "token"])
def test_a_message_is_at_its_field_whatever_the_field(name: str) -> None:
    form = shown(Invalid("Not <that>.", param=name))
    assert message_at(form, name) == "Not <that>."
    [control] = form.select("[autofocus]")
    assert control["name"] == name
    assert len(form.select("[aria-invalid=true]")) == (name != "role")
    assert [fold for fold in form.select("details") if fold.has_attr("open")] == (
        form.select("details") if name == "kind" else []
    )


def test_every_message_is_shown_and_the_first_wrong_field_has_the_focus() -> None:
    form = shown(
        NotFound("No text.", param="text"), Invalid("No name.", param="name"), Invalid("No name again.", param="name")
    )
    assert [message_at(form, name) for name in ("name", "text", "kind")] == ["No name.", "No text.", ""]
    assert [one["name"] for one in form.select("[autofocus]")] == ["name"]
    # Its hint is still said, after the message.
    assert form.select_one("[name=name]")["aria-describedby"].split() == ["wrong-0", "h-name"]
    assert "A hint & more" in form.text


@pytest.mark.parametrize("param", ["settings.name", "name", "a.b.name"])
def test_a_refusal_may_name_the_field_as_the_api_does(param: str) -> None:
    assert message_at(shown(Invalid("Wrong.", param=param)), "name") == "Wrong."


def test_a_field_lists_the_other_names_that_the_api_has_for_it() -> None:
    assert message_at(shown(Invalid("Wrong.", param="third")), "loose") == "Wrong."


def test_what_was_typed_is_kept_except_secrets() -> None:
    form = shown(Invalid("No.", param=None))
    assert form.select_one("[name=name]")["value"] == 'ty"ped <b>'
    assert form.select_one("textarea").text == "\n\nlines\n<i>"
    assert [one.text for one in form.select("option[selected]")] == ["one"]
    assert [one["value"] for one in form.select("[name=app][checked]")] == ["a"]
    assert "s3cret" not in str(form)
    assert "of another form" in RefusedForm(PAGE, "POST", "/here", Form(SENT), [Invalid("No.")]).html


def test_a_refusal_about_no_field_of_the_form_is_reported() -> None:
    lost, found = Invalid("Where?", param="nowhere"), Invalid("Here.", param="name")
    assert RefusedForm(PAGE, "POST", "/here", Form(SENT), [lost, found]).unplaced == [lost]
    assert RefusedForm(PAGE, "POST", "/elsewhere", Form(SENT), [found]).unplaced == [found]
    assert RefusedForm(PAGE, "POST", "/elsewhere", Form(SENT), [found]).html == PAGE


def test_of_several_forms_to_one_path_the_one_with_the_same_hidden_fields_is_marked() -> None:
    rows = "".join(
        f'<form method="post" action="/move"><input type="hidden" name="of" value="{n}"><input name="to"></form>'
        for n in "123"
    )
    sent = Form([("of", "2"), ("to", "9")])
    again = BeautifulSoup(RefusedForm(rows, "POST", "/move", sent, [Invalid("No.", param="to")]).html, "html.parser")
    assert [one.select_one("[name=to]").get("value") for one in again.select("form")] == [None, "9", None]  # type: ignore[union-attr]
    elsewhere = (
        '<form method="post" action="/save"><input name="to"><button formaction="/preview">Preview</button></form>'
    )
    assert "No." in RefusedForm(elsewhere, "POST", "/preview", sent, [Invalid("No.", param="to")]).html


@given(st.lists(st.tuples(st.sampled_from(["name", "kind", "app", "text", "loose"]), st.text()), max_size=6))
def test_whatever_was_typed_stays_text(sent: list[tuple[str, str]]) -> None:
    form = shown(Invalid("No.", param="name"), sent=sent)
    plain = BeautifulSoup(PAGE, "html.parser").select("form")[1]
    assert [one.name for one in form.find_all(True) if one.get("class") != ["wrong"]] == [
        one.name for one in plain.find_all(True)
    ]


def refused(name: str | None) -> None:
    raise Invalid(f"No {name}.", param=name)


def all_refused() -> None:
    with Checks() as check:
        assert check(int, "7") == 7
        for name in ("a", "a", "b"):
            check(refused, name)
        raise NotFound("No c.", param="c")


def broken() -> None:
    with Checks() as check:
        check(refused, "a")
        check(int, "seven")


def test_checks_raise_what_they_refuse_together_once_for_each_field() -> None:
    with pytest.raises(Invalid) as caught:
        all_refused()
    assert [one.message for one in caught.value.all] == ["No a.", "No b.", "No c."]
    with pytest.raises(ValueError, match="seven"):
        broken()


async def test_a_form_in_a_browser_names_every_error_at_its_field_with_and_without_a_script(
    site: Site, browser: Browser
) -> None:
    for script in (True, False):
        async with visiting(browser, site, Role.OWNER, java_script_enabled=script) as visitor:
            page = await visitor.open("/catalog/new-entitlement")
            await page.get_by_label("Id").fill("not an id")
            await page.get_by_label("Name").fill("\x07")
            await page.get_by_role("button", name="Create").click()
            first, second = page.get_by_label("Id"), page.get_by_label("Name")
            await expect(first).to_be_focused()
            await expect(first).to_have_accessible_description(re.compile("^An id has 1 to"))
            await expect(second).to_have_accessible_description(re.compile("^A name has 1 to"))
            await expect(first).to_have_value("not an id")
            assert await page.locator("[aria-invalid=true]").count() == 2
            visitor.complaints.clear()  # that the reply was a refusal


async def test_what_only_the_browser_sees_is_said_at_the_field_too(site: Site, browser: Browser) -> None:
    """Half of a date would be sent as no date."""
    async with visiting(browser, site, Role.OWNER) as visitor:
        page = await visitor.open("/test-clocks")
        start = page.get_by_label("Starts at")
        await page.get_by_label("Name").fill("Half")
        await start.press("1")
        await page.get_by_role("button", name="Create").click()
        await expect(start).to_be_focused()
        await expect(start).to_have_attribute("aria-invalid", "true")
        assert await page.locator(".field .wrong").count() == 1
        await page.get_by_role("button", name="Create").click()
        assert await page.locator(".field .wrong").count() == 1


async def test_a_filter_that_cannot_be_used_is_left_out_and_its_field_says_why(site: Site) -> None:
    page = await tab(site, Role.VIEWER, "/customers?spent_from=much&first_seen_after=then&status=active&country=DE")
    assert page.status == 400
    assert page.texts(".wrong") == [
        "spent_from is an amount in US dollars, such as 19.99.",
        "first_seen_after is a date such as 2026-10-01, or days ago such as 30d.",
    ]
    assert [page.value(label) for label in ("Spent at least", "First seen after", "Country")] == ["much", "then", "DE"]
    # What names no field is an error of its own.
    for path in ("/customers?before=yesterday", "/customers.csv?spent_from=much"):
        assert (await page.open(path)).status == 400
        assert page.heading == "That did not work"
