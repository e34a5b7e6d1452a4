"""The dashboard without a browser: its pages are fetched, and its forms filled in by their labels."""

import ssl
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Self
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, HTTPSHandler, OpenerDirector, build_opener

import pytest

from conformance.service import Service


@dataclass
class Form:
    action: str
    values: dict[str, str] = field(default_factory=dict)
    choices: dict[str, dict[str, str]] = field(default_factory=dict)  # by field, then by the text that is shown
    ids: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    button: str = ""

    def filled(self, entries: dict[str, str]) -> dict[str, str]:
        """The values to send; `entries` are by label, and a choice is the text that is shown."""
        values = dict(self.values)
        for label, entry in entries.items():
            name = self.ids[self.labels[label]]
            values[name] = self.choices[name][entry] if name in self.choices else entry
        return values


class Page(HTMLParser):
    def __init__(self, address: str, text: str) -> None:
        super().__init__()
        self.address, self.text = address, text
        self.forms: list[Form] = []
        self.links: dict[str, str] = {}  # by their text
        self._form: Form | None = None
        self._select = ""
        # What the text between two tags is: the kind, and for a label and an option which.
        self._reading: tuple[str, str] | None = None
        self.feed(text)

    def form(self, button: str) -> Form:
        return next(form for form in self.forms if form.button == button)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Form(told.get("action", self.address))
            self.forms.append(self._form)
        elif tag == "a":
            self._reading = "link", urljoin(self.address, told.get("href", ""))
        if self._form is None:
            return
        name = told.get("name", "")
        if tag in {"input", "select", "textarea"}:
            self._form.ids[told.get("id", "")] = name
        if tag == "input" and told.get("type") not in {"checkbox", "radio"}:
            self._form.values[name] = told.get("value", "")
        elif tag == "select":
            self._select, self._form.choices[name] = name, {}
        elif tag == "option":
            self._reading = "option", told.get("value", "")
            if "selected" in told:
                self._form.values[self._select] = told.get("value", "")
        elif tag in {"label", "button"}:
            self._reading = tag, told.get("for", "")

    def handle_data(self, data: str) -> None:
        if self._reading is None:
            return
        kind, which = self._reading
        self._reading = None
        if kind == "link" or self._form is None:
            self.links[data.strip()] = which
        elif kind == "label":
            self._form.labels[data.strip()] = which
        elif kind == "option":
            self._form.choices[self._select][data.strip()] = which or data.strip()
        else:
            self._form.button = self._form.button or data.strip()

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None


@dataclass(frozen=True)
class Dashboard:
    address: str  # of the project's pages
    opener: OpenerDirector

    @classmethod
    def signed_in(cls, service: Service) -> Self:
        if not service.dashboard:
            pytest.skip("needs an account of the dashboard")
        context = ssl.create_default_context(cafile=service.ca)
        opener = build_opener(HTTPSHandler(context=context), HTTPCookieProcessor())
        entry = cls(service.dashboard["url"] + "/", opener)
        account = {"E-mail": service.dashboard["email"], "Password": service.dashboard["password"]}
        entry.submit(entry.open("sign-in"), "Sign in", account)
        return cls(f"{entry.address}projects/{service.project}/", opener)

    def open(self, path: str, sent: dict[str, str] | None = None) -> Page:
        """A page, by its path below the project's or by its address."""
        data = None if sent is None else urlencode(sent).encode()
        with self.opener.open(urljoin(self.address, path), data, timeout=30) as reply:
            return Page(reply.url, reply.read().decode())

    def submit(self, page: Page, button: str, entries: dict[str, str]) -> Page:
        form = page.form(button)
        return self.open(urljoin(page.address, form.action), form.filled(entries))
