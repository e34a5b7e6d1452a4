"""What a form sent: text by name, each read in the way its field is meant, refused with the field's name."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid


class Form:
    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in fields:
            self._fields.setdefault(name, []).append(value)

    def text(self, name: str, default: str = "") -> str:
        """Without the spaces around it; empty where nothing was sent."""
        return self.raw(name, default).strip()

    def raw(self, name: str, default: str = "") -> str:
        """As it was typed, such as a password."""
        value = self._fields.get(name, [default])[-1]
        if "\x00" in value:
            raise Invalid(f"{_said(name)} holds a character that cannot be kept.", param=name)
        return value

    def needed(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise Invalid(f"{_said(name)} is missing.", param=name)
        return value

    def all(self, name: str) -> list[str]:
        """Everything that was ticked or chosen under this name."""
        return [value.strip() for value in self._fields.get(name, []) if value.strip()]

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

    def choice(self, name: str, choices: Iterable[str], default: str | None = None) -> str:
        """One of these; what a page offers to choose from is the default where something else was asked for."""
        value = self.text(name)
        if value in set(choices):
            return value
        if default is None:
            raise Invalid(f"{_said(name)} is one of {', '.join(choices)}.", param=name)
        return default

    def instant(self, name: str) -> Ms | None:
        """A date or a date with a time, in UTC, as browsers send them; none where nothing was sent."""
        text = self.text(name)
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise Invalid(f"{_said(name)} is a date such as 2027-01-31.", param=name) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)

    def confirmed(self) -> None:
        """Nothing that cannot be undone happens by a slip of the hand."""
        if not self.ticked("confirm"):
            raise Invalid("Tick the box to confirm that you mean it.", param="confirm")

    def values(self) -> dict[str, str]:
        """To fill the form in again, when something in it was wrong. Without anything secret."""
        return {name: values[-1] for name, values in self._fields.items() if "password" not in name}


def _said(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").strip().capitalize()
