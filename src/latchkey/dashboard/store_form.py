"""The credentials of a store as a form, from the fields that its adapter declares."""

from collections.abc import Mapping, Sequence
from typing import Any

from latchkey.dashboard.form import Form
from latchkey.dashboard.texts import sentence
from latchkey.domain.refusal import Checks, Invalid
from latchkey.stores.adapters import CREDENTIAL_FORMS
from latchkey.stores.credential_form import CredentialField


def label(name: str, store: str) -> str:
    """What a saved value is called."""
    for field in CREDENTIAL_FORMS[store].fields:
        if field.name == name and field.shown_in_full:
            return field.label
    words = sentence(name)
    return f"{words[:-2]}ID" if words.endswith(" id") else words


def read(fields: Sequence[CredentialField], form: Form) -> dict[str, Any]:
    """As the API takes them. What is empty is left out."""
    given: dict[str, Any] = {}
    with Checks() as check:
        for field in fields:
            if text := form.raw(field.name).strip():
                try:
                    given[field.name] = field.from_text(text)
                except ValueError as error:
                    check.add(Invalid(str(error), param=field.name))
            elif field.required:
                check.add(Invalid(f"{field.label} is missing.", param=field.name))
    return given


def filled(fields: Sequence[CredentialField], saved: Mapping[str, Any] | None, **around: str) -> dict[str, str]:
    """What the form shows: what is saved, else what the field suggests. Never a secret."""
    shown = {field.name for field in fields if field.shown_in_full and not field.secret}
    kept = {name: str(value) for name, value in (saved or {}).items() if name in shown}
    return {field.name: kept.get(field.name) or field.suggestion.format(**around) for field in fields}
