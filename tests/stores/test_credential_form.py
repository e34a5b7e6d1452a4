"""A store declares its credential fields once: the API's body, the dashboard's form and the CLI's options follow."""

import re
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import latchkey
from latchkey.dashboard import store_form
from latchkey.dashboard.form import Form
from latchkey.domain.refusal import Invalid
from latchkey.stores.adapters import CREDENTIAL_FORMS
from latchkey.stores.credential_form import CredentialField, CredentialForm
from latchkey.subjects.purchase_intake.api.credentials_v2 import NewCredentials, credentials_body
from latchkey.subjects.purchase_intake.command.app_command import with_credential_fields

SOURCE = Path(latchkey.__file__).parent


def _tier(text: str) -> int:
    if not text.isdigit():
        raise ValueError("A tier is a number.")
    return int(text)


ANOTHER, DEPOT = "Another host in place of the store's, if it is allowed.", "likewise, for its depot."
NEW_STORE = CredentialForm(
    "Kiosk",
    (
        CredentialField("shop", "Shop", "the shop's name.", required=True, suggestion="{host}"),
        CredentialField("tier", "Tier", "its tier.", json=int, from_text=_tier),
        CredentialField("seal", "Seal", "its seal.", file="the seal file", secret=True),
        CredentialField(
            "api_base_url", "Address of the kiosk", ANOTHER, emulator=True, address="https://kiosk.example.com"
        ),
        CredentialField("depot_url", "Address of the depot", DEPOT, emulator=True, address="https://depot.example.com"),
    ),
    dict,
)


def test_a_new_store_is_in_the_body_of_the_api() -> None:
    body = credentials_body([*dict.fromkeys(CREDENTIAL_FORMS.values()), NEW_STORE])
    given = {"shop": "Corner", "tier": 3, "seal": "s3cret", "depot_url": "https://depot.example.com"}
    made = body.model_validate(given)
    assert made.model_dump(exclude_none=True) == given
    assert "s3cret" not in repr(made)
    properties: dict[str, Any] = body.model_json_schema()["properties"]
    assert properties["shop"]["description"] == "Kiosk: the shop's name."
    assert properties["api_base_url"]["description"] == "Another host in place of the store's, if it is allowed."
    with pytest.raises(ValidationError):
        body.model_validate({"tier": "3"})


def test_a_new_store_is_a_form_of_the_dashboard() -> None:
    fields = NEW_STORE.fields
    sent = Form([("shop", " Corner "), ("tier", "3"), ("seal", "s3cret\n"), ("api_base_url", "")])
    assert store_form.read(fields, sent) == {"shop": "Corner", "tier": 3, "seal": "s3cret"}
    with pytest.raises(Invalid, match="A tier is a number") as refused:
        store_form.read(fields, Form([("shop", "Corner"), ("tier", "high")]))
    assert refused.value.param == "tier"
    empty = {"tier": "", "seal": "", "api_base_url": "", "depot_url": ""}
    assert store_form.filled(fields, None, host="shop.example.com") == {"shop": "shop.example.com", **empty}
    again = store_form.filled(fields, {"shop": "Old", "seal": "SHA-256 …"}, host="")
    assert again == {**empty, "shop": "Old"}


def test_a_new_store_is_in_the_options_and_the_help_of_the_command() -> None:
    async def save(file: Path | None = None, **field_files: Path | None) -> None:
        """Save them."""

    with_credential_fields([NEW_STORE])(save)
    assert list(signature(save).parameters) == ["file", "seal"]
    assert save.__doc__ == "Save them.\n\nKiosk: shop; optional tier, seal."


def test_no_field_of_a_store_is_named_in_the_api_the_form_or_the_command() -> None:
    declared = {field.name for form in CREDENTIAL_FORMS.values() for field in form.fields}
    assert declared == NewCredentials.model_fields.keys()
    intake = SOURCE / "subjects" / "purchase_intake"
    for file in (
        intake / "api" / "credentials_v2.py",
        intake / "command" / "app_command.py",
        intake / "page.py",
        SOURCE / "dashboard" / "store_form.py",
        SOURCE / "dashboard" / "templates" / "store_parts.html",
    ):
        assert not declared & set(re.findall(r"\w+", file.read_text())), file.name
