"""Pages without a browser: their HTML as the server sends it, links that are followed, forms that are filled in and
sent. For what scripts and styles do there is `site.visiting`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode, urljoin

from bs4 import BeautifulSoup, Tag

from latchkey.dashboard.cookie import SESSION
from latchkey.subjects.accounts.rules import Role
from tests.dashboard.asking import Person, somebody
from tests.dashboard.site import Site

BUTTONS = "button:not([type=button])"
BLOCKS = re.compile("br|dd|div|dl|dt|form|h[1-6]|input|label|li|option|p|pre|section|small|summary|td|th|tr")
# `True` ticks or chooses, `False` takes a tick away; of a selection, an option's value or words.
Fields = Mapping[str, str | bool]


class Tab:
    def __init__(self, person: Person) -> None:
        self.person = person
        self.site = person.site
        self.cookies = {SESSION: person.token} if person.token else {}
        self.status, self.path, self.html = 0, "", ""
        self.headers: Mapping[str, str] = {}
        self.soup = BeautifulSoup()

    async def open(self, path: str = "") -> Tab:
        """A page of the project, or any page by its whole path."""
        begin = "" if path.startswith("/dashboard") else f"/dashboard/projects/{self.site.project_id}"
        return await self._ask("GET", begin + path)

    async def follow(self, link: str, within: str = "body") -> Tab:
        """Click on a link, by its label or the words it begins with."""
        found = [one for one in self.soup.select(f"{within} a[href]") if _called(one, link)]
        assert found, f"there is no link {link!r} in {self!r}"
        return await self._ask("GET", urljoin(self.path, str(found[0]["href"])))

    async def press(self, button: str, fields: Fields | None = None, *, within: str = "", sure: bool = False) -> Tab:
        """Fill in the form of a button and press it; `within` is text that stands around the form, `sure` ticks the box
        that confirms it."""
        pressed = [one for one in self.soup.select(BUTTONS) if _called(one, button, whole=True)]
        pressed = [one for one in pressed if not within or _around(one, within)]
        assert pressed, f"there is no button {button!r} in {self!r}"
        found = pressed[0]
        assert not found.has_attr("disabled"), f"{button!r} is disabled"
        form = self.form_of(found)
        for label, value in {**(fields or {}), **({"Yes, ": True} if sure else {})}.items():
            _fill(_control(form, label), value)
        sent = _sent(form)
        if found.has_attr("name"):
            sent.append((str(found["name"]), str(found.get("value", ""))))
        method, path = self.sent_by(found)
        if method == "POST":
            return await self._ask("POST", path, urlencode(sent).encode())
        return await self._ask("GET", f"{path.partition('?')[0]}?{urlencode(sent)}")

    def form_of(self, button: Tag) -> Tag:
        form = self.soup.select_one(f"form#{button['form']}") if button.has_attr("form") else button.find_parent("form")
        assert isinstance(form, Tag)
        return form

    def sent_by(self, button: Tag) -> tuple[str, str]:
        """The method and the path of the request that a button makes."""
        form = self.form_of(button)
        path = urljoin(self.path, str(button.get("formaction") or form.get("action") or ""))
        return str(form.get("method", "get")).upper(), path

    async def _ask(self, method: str, path: str, body: bytes = b"") -> Tab:
        for _ in range(5):
            headers = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
            reply = await self.person.ask(method, path.partition("#")[0], body=body, headers=headers)
            for line in reply.headers.get("set-cookie", "").splitlines():
                name, _, value = line.partition(";")[0].partition("=")
                self.cookies[name] = value
                if value.strip('"') == "":
                    del self.cookies[name]
            self.status, self.path, self.headers = reply.status, path, reply.headers
            if reply.status != 303:
                self.html = reply.body.decode()
                self.soup = BeautifulSoup(self.html, "html.parser")
                return self
            method, path, body = "GET", urljoin(path, reply.headers["location"]), b""
        raise AssertionError(f"{path} leads around in a circle")

    @property
    def below(self) -> str:
        """The path below the project, with its query."""
        return self.path.removeprefix(f"/dashboard/projects/{self.site.project_id}")

    @property
    def heading(self) -> str:
        return self.text("h1")

    @property
    def alert(self) -> str:
        return self.text("[role=alert]")

    @property
    def notice(self) -> str:
        return self.text("[role=status]")

    @property
    def rows(self) -> list[str]:
        return self.texts("tbody tr")

    def row(self, words: str, within: str = "body") -> str:
        """The only row of a table with these words."""
        [found] = [text for text in self.texts(f"{within} tr") if words in text]
        return found

    def text(self, selector: str = "main") -> str:
        """The words of the first element, with single spaces; empty if there is none."""
        return next(iter(self.texts(selector)), "")

    def texts(self, selector: str) -> list[str]:
        return [words(one) for one in self.soup.select(selector)]

    def value(self, label: str) -> str:
        """What is in a field."""
        control = _control(self.soup, label)
        if control.name == "select":
            return str(_chosen(control)["value"])
        return str(control.get("value", "")) if control.name == "input" else control.text.removeprefix("\n")

    def ticked(self, label: str) -> bool:
        return _control(self.soup, label).has_attr("checked")

    @property
    def is_only_read(self) -> bool:
        """Nothing in it can be changed."""
        return not self.soup.select("main form[method=post], main .tools a, main details.action")

    def __repr__(self) -> str:
        return f"<{self.status} {self.path}: {self.text('body')[:1500]}>"


async def tab(site: Site, role: Role | None = Role.OWNER, path: str = "") -> Tab:
    """A page as somebody new with this role sees it; with None, who is not signed in."""
    person = await somebody(site, role) if role is not None else Person(site)
    return await Tab(person).open(path)


def words(tag: Tag) -> str:
    """As a browser shows them: blocks and cells apart, single spaces."""
    texts = (
        ("" if not BLOCKS.fullmatch(one.name) else " ") if isinstance(one, Tag) else one for one in tag.descendants
    )
    return re.sub(r"\s+", " ", "".join(map(str, texts))).strip()


def _called(tag: Tag, name: str, *, whole: bool = False) -> bool:
    label = str(tag.get("aria-label") or words(tag))
    return label == name or (not whole and label.startswith(name))


def _around(tag: Tag, text: str) -> bool:
    """Whether the text stands in the row, fold, article or form of a button."""
    return any(text in words(one) for one in tag.find_parents(["tr", "details", "article", "form", "li"]))


def _control(inside: Tag, label: str) -> Tag:
    labels = [(one, words(one)) for one in inside.select("label")]
    # Whole labels first, then those that begin so, then those that contain it.
    for one, _ in sorted(
        ((one, (text != label, not text.startswith(label))) for one, text in labels if label in text),
        key=lambda found: found[1],
    ):
        control = inside.find(id=str(one["for"])) if one.has_attr("for") else one.find(["input", "select", "textarea"])
        if isinstance(control, Tag):
            return control
    control = inside.select_one(f'[aria-label="{label}"]')
    assert control is not None, f"there is no field {label!r}, only {[text for _, text in labels]}"
    return control


def _fill(control: Tag, value: str | bool) -> None:
    if control.name == "select":
        options = control.select("option")
        [option] = [one for one in options if value in (one.get("value"), words(one))]
        for one in options:
            one.attrs.pop("selected", None)
        option["selected"] = ""
    elif control.get("type") in ("checkbox", "radio"):
        if control["type"] == "radio":
            form = control.find_parent("form")
            assert form is not None
            for one in form.select(f'[name="{control["name"]}"]'):
                one.attrs.pop("checked", None)
        control.attrs.pop("checked", None)
        if value:
            control["checked"] = ""
    elif control.name == "textarea":
        control.string = str(value)
    else:
        control["value"] = str(value)


def _chosen(select: Tag) -> Tag:
    return select.select_one("option[selected]") or select.select("option")[0]


def _sent(form: Tag) -> list[tuple[str, str]]:
    """What a browser would send; it sends nothing before the required fields are filled in."""
    sent: list[tuple[str, str]] = []
    for one in form.select("input[name], select[name], textarea[name]"):
        if one.has_attr("disabled"):
            continue
        name, given = str(one["name"]), str(one.get("value", ""))
        if one.name == "select":
            options = one.select("option[selected]") if one.has_attr("multiple") else [_chosen(one)]
            sent += [(name, str(option.get("value", words(option)))) for option in options]
            continue
        if one.get("type") in ("checkbox", "radio"):
            if not one.has_attr("checked"):
                assert not (one.has_attr("required") and one["type"] == "checkbox"), f"{name} is required"
                continue
            given = given or "on"
        elif one.name == "textarea":
            given = one.text.removeprefix("\n").replace("\r\n", "\n").replace("\n", "\r\n")
        assert given or not one.has_attr("required"), f"{name} is required"
        sent.append((name, given))
    return sent
