"""A form that was refused, in the page that shows it again: every message is beside its field, the first wrong field
has the focus, and the fields contain what was typed, except secrets. This is done to the finished page, so that no
template and no handler can forget it."""

from collections.abc import Iterator, Sequence
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urlsplit

from markupsafe import escape
from msgspec import Struct

from latchkey.dashboard.form import Form
from latchkey.domain.refusal import Refusal

_VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})
_CONTROLS = frozenset({"input", "select", "textarea"})
# The page decides their value, not who fills in the form.
_FIXED = frozenset({"button", "file", "hidden", "image", "reset", "submit"})
_TICKED = frozenset({"checkbox", "radio"})


class _Element(Struct, eq=False):
    tag: str
    attributes: dict[str, str | None]
    parent: "_Element | None"
    # Where its start tag begins and ends, and where its end tag begins.
    start: int
    inside: int
    end: int

    def above(self) -> Iterator["_Element"]:
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def name(self) -> str:
        return self.attributes.get("name") or ""

    @property
    def kind(self) -> str:
        return (self.attributes.get("type") or "text") if self.tag == "input" else self.tag

    @property
    def is_secret(self) -> bool:
        return self.kind == "password" or "data-secret" in self.attributes

    def answers(self, param: str | None) -> bool:
        """Whether a refusal that names `param` is about this field. If the API calls it by other names, they are in its
        `data-param`."""
        if not param or self.kind in _FIXED:
            return False
        return not {param, param.rpartition(".")[2]}.isdisjoint((self.name, *self._given("data-param")))

    def is_sent_to(self, path: str) -> bool:
        """Of a form, and of a button that sends its form elsewhere."""
        return any(urlsplit(self.attributes.get(name) or "").path == path for name in ("action", "formaction"))

    def is_form(self, method: str) -> bool:
        return self.tag == "form" and (self.attributes.get("method") or "get").upper() == method

    def _given(self, attribute: str) -> list[str]:
        return (self.attributes.get(attribute) or "").split()

    def has_class(self, name: str) -> bool:
        return name in self._given("class")

    def switch(self, attribute: str, *, on: bool) -> None:
        self.attributes.pop(attribute, None)
        if on:
            self.attributes[attribute] = None

    def describe(self, id: str) -> None:
        self.attributes["aria-describedby"] = " ".join([id, *self._given("aria-describedby")])

    def written(self) -> str:
        given = (
            f" {name}" if value is None else f' {name}="{escape(value)}"' for name, value in self.attributes.items()
        )
        return f"<{self.tag}{''.join(given)}>"


class _Reader(HTMLParser):
    """The elements of a page, in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[_Element] = []
        self._open: list[_Element] = []
        self._lines = [0]
        for line in html.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self.feed(html)
        self.close()

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        start = self._place()
        inside = start + len(self.get_starttag_text() or "")
        # Of an attribute that is there twice, browsers take the first.
        attributes = dict(reversed(attrs))
        self.found.append(_Element(tag, attributes, self._open[-1] if self._open else None, start, inside, inside))
        if tag not in _VOID:
            self._open.append(self.found[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A part of a picture, such as `<path/>`, which contains nothing."""

    def handle_endtag(self, tag: str) -> None:
        while any(one.tag == tag for one in self._open):
            closed = self._open.pop()
            closed.end = self._place()
            if closed.tag == tag:
                return


class RefusedForm:
    def __init__(self, html: str, method: str, path: str, sent: Form, refusals: Sequence[Refusal]) -> None:
        self._html, self._sent = html, sent
        self._elements = _Reader(html).found
        self._edits: dict[tuple[int, int], str] = {}
        self.unplaced = list(refusals)
        sending = [one for one in self._elements if one.is_sent_to(path)]
        forms = [form for one in sending for form in (one, *one.above()) if form.is_form(method)]
        for form in sorted(forms, key=lambda form: (self._without_field(form, refusals), self._is_another(form)))[:1]:
            self._show(form, refusals)

    @property
    def html(self) -> str:
        pieces: list[str] = []
        copied = 0
        for (start, end), text in sorted(self._edits.items()):
            pieces += self._html[copied:start], text
            copied = end
        return "".join((*pieces, self._html[copied:]))

    def _without_field(self, form: _Element, refusals: Sequence[Refusal]) -> int:
        """How many refusals are about no field of it."""
        controls = self._below(form, *_CONTROLS)
        return sum(not any(one.answers(refusal.param) for one in controls) for refusal in refusals)

    def _is_another(self, form: _Element) -> bool:
        """Several forms of a page may lead to the same path. They differ in their hidden fields."""
        hidden = [one for one in self._below(form, "input") if one.kind == "hidden"]
        return any((one.attributes.get("value") or "") not in self._sent.sent(one.name) for one in hidden)

    def _below(self, form: _Element, *tags: str) -> list[_Element]:
        return [one for one in self._elements if one.tag in tags and form in one.above()]

    def _show(self, form: _Element, refusals: Sequence[Refusal]) -> None:
        controls = self._below(form, *_CONTROLS)
        for one in controls:
            self._fill(one)
        wrong: dict[int, tuple[_Element, str]] = {}
        for refusal in refusals:
            about = next((one for one in controls if one.answers(refusal.param)), None)
            if about is not None:
                wrong.setdefault(about.start, (about, refusal.message))
                self.unplaced.remove(refusal)
        for number, place in enumerate(sorted(wrong)):
            self._mark(*wrong[place], f"wrong-{number}")
            wrong[place][0].switch("autofocus", on=number == 0)
        folds = [fold for one, _ in wrong.values() for fold in one.above() if fold.tag == "details"]
        for fold in folds:
            fold.switch("open", on=True)
        for one in (*controls, *folds, *self._below(form, "option")):
            self._edits[one.start, one.inside] = one.written()

    def _fill(self, one: _Element) -> None:
        one.switch("autofocus", on=False)
        typed = self._sent.sent(one.name)
        if one.kind in _FIXED or one.is_secret:
            return
        if one.kind in _TICKED:
            one.switch("checked", on=(one.attributes.get("value") or "on") in typed)
        elif one.tag == "select":
            for option in self._below(one, "option"):
                value = option.attributes.get("value")
                words = unescape(self._html[option.inside : option.end]).strip() if value is None else value
                option.switch("selected", on=words in typed)
        elif typed and one.tag == "textarea":
            self._edits[one.inside, one.end] = f"\n{escape(typed[-1])}"
        elif typed:
            one.attributes["value"] = typed[-1]

    def _mark(self, one: _Element, message: str, id: str) -> None:
        one.describe(id)
        # It is no property of a radio button, but of their group.
        if one.kind != "radio":
            one.attributes["aria-invalid"] = "true"
        place = self._place_of_message(one)
        said = f'<span class="wrong" id="{id}">{escape(message)}</span>'
        self._edits[place, place] = self._edits.get((place, place), "") + said

    def _place_of_message(self, one: _Element) -> int:
        """Below the field and its hint; in a group of boxes below its title."""
        for holder in one.above():
            if holder.has_class("field"):
                return holder.end
            if holder.tag == "fieldset" and one.kind in _TICKED:
                return next((legend.end for legend in self._below(holder, "legend")), holder.inside)
        if one.parent is not None and one.parent.tag == "label":
            return one.parent.end
        return one.inside if one.tag == "input" else one.end + len(f"</{one.tag}>")
