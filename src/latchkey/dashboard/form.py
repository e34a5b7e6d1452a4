"""The fields of a form, parsed by type; errors name the field. And a count over several requests: the position and the
result so far are in the URL of the next request. Whoever edits that only shows themselves a wrong number."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from latchkey.dashboard import texts
from latchkey.domain.instants import EARLIEST, LATEST, Ms
from latchkey.domain.naming import checked_name
from latchkey.domain.refusal import Checks, Invalid
from latchkey.domain.time_zones import instant_of
from latchkey.engine.clock import ScanProgress

Choice = TypeVar("Choice", bound=str)


class Form:
    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in fields:
            self._fields.setdefault(name, []).append(value)

    def text(self, name: str, default: str = "") -> str:
        """Without surrounding spaces; empty if nothing was sent."""
        return self.raw(name, default).strip()

    def raw(self, name: str, default: str = "") -> str:
        """Unchanged, for example for a password."""
        value = self._fields.get(name, [default])[-1]
        if "\x00" in value:
            raise Invalid(f"{_said(name)} contains a character that cannot be stored.", param=name)
        return value

    def needed(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise Invalid(f"{_said(name)} is missing.", param=name)
        return value

    def name(self, name: str, default: str) -> str:
        """A name for people; the default if it is left empty."""
        text = self.text(name)
        return checked_name(text, name) if text else default

    def sent(self, name: str) -> list[str]:
        """Every value, unchanged, to show it again."""
        return [value.replace("\x00", "") for value in self._fields.get(name, [])]

    def without(self, names: Container[str | None]) -> Form:
        return Form((name, value) for name, values in self._fields.items() if name not in names for value in values)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def require_storable(self) -> None:
        with Checks() as check:
            for name, values in self._fields.items():
                if any("\x00" in text for text in (name, *values)):
                    check.add(
                        Invalid(f"{_said(name)[:50]} contains a character that cannot be stored.", param=name[:50])
                    )

    def all(self, name: str) -> list[str]:
        """All values that were ticked or chosen under this name."""
        return [value.strip() for value in self._fields.get(name, []) if value.strip()]

    def pairs(self) -> list[tuple[str, str]]:
        """Every name with each of its values, unchanged."""
        found = [(name, value) for name, values in self._fields.items() for value in values]
        for name, value in found:
            if "\x00" in name + value:
                raise Invalid(f"{_said(name)[:50]!r} contains a character that cannot be stored.", param=name[:50])
        return found

    def ticked(self, name: str) -> bool:
        return bool(self._fields.get(name))

    def number(self, name: str, default: int | None = None, *, low: int = 0, high: int = 2**53) -> int:
        text = self.text(name)
        if not text and default is not None:
            return default
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise Invalid(f"{_said(name)} is a whole number from {low:,} to {high:,}.", param=name)
        return number

    def choice(self, name: str, choices: Iterable[Choice], default: Choice | None = None) -> Choice:
        """One of these. With a default, another value counts as the default."""
        offered = {str(one): one for one in choices}
        chosen = offered.get(self.text(name), default)
        if chosen is None:
            raise Invalid(f"{_said(name)} is one of {', '.join(offered)}.", param=name)
        return chosen

    def chosen(self, name: str, choices: Iterable[Choice]) -> Choice | None:
        """One of these; None if it is empty."""
        return self.choice(name, choices) if self.text(name) else None

    def instant(self, name: str) -> Ms | None:
        """A date, or a date with a time, as browsers send them, in the project's time zone; None if it is empty."""
        text = self.text(name)
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text)
            at = instant_of(moment, moment.tzinfo or texts.ZONE.get())
        except (ValueError, OverflowError):
            raise Invalid(f"{_said(name)} is a date such as 2027-01-31.", param=name) from None
        if not EARLIEST <= at <= LATEST:
            raise Invalid("A time is between the years 2000 and 2199.", param=name)
        return at

    def span(self) -> tuple[Ms | None, Ms | None]:
        """From `since` to `until`."""
        since, until = self.instant("since"), self.instant("until")
        if since is not None and until is not None and until <= since:
            raise Invalid("The end must be later than the start.", param="until")
        return since, until

    def confirmed(self) -> None:
        """Requires the confirmation box, so that nothing irreversible happens by accident."""
        if not self.ticked("confirm"):
            raise Invalid("Tick the box to confirm.", param="confirm")


def _said(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").strip().capitalize()


def place_of(query: Form) -> ScanProgress:
    return ScanProgress(query.number("after", 0), query.number("passed", 0), query.number("last", 0))


def counts_of(query: Form, name: str) -> dict[str, int]:
    counts = {}
    for text in query.all(name):
        id, _, count = text.rpartition("|")
        if not (count.isascii() and count.isdecimal() and len(count) <= 12):
            raise Invalid("This address is incomplete. Go back and start again.", param=name)
        counts[id] = int(count)
    return counts


def count_fields(place: ScanProgress, **counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """What `place_of` and `counts_of` read."""
    yield from (("after", str(place.after)), ("passed", str(place.passed)), ("last", str(place.last)))
    for name, found in counts.items():
        yield from ((name, f"{id}|{count}") for id, count in sorted(found.items()))
