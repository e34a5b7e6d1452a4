"""docs/stores.md, and the set-up pages, say what the code does."""

import re
from pathlib import Path
from typing import Any

import pytest

from latchkey.domain.instants import DAY, HOUR, MINUTE, SECOND
from latchkey.domain.stores import waits
from latchkey.emulators.stripe import stripe_objects
from latchkey.settings import Settings
from latchkey.stores.adapters import CREDENTIAL_FORMS
from latchkey.stores.stripe import api
from latchkey.subjects.purchase_intake.rules import Status
from latchkey.subjects.purchase_intake.usecases import store_connections as credentials
from latchkey.subjects.store_products import rules

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "stores.md").read_text(encoding="utf-8")
TEMPLATES = ROOT / "src" / "latchkey" / "subjects" / "purchase_intake" / "templates"
UNITS = {"s": SECOND, "min": MINUTE, "hour": HOUR}


def test_the_numbers_in_the_page_are_those_of_the_code() -> None:
    [told] = re.findall(r"retried after (.*), and then every (hour), for (\d+) days", PAGE)
    retries = tuple(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+) (s|min)", told[0]))
    assert (*retries, UNITS[told[1]]) == waits.RETRIES
    assert int(told[2]) * DAY == waits.GIVEN_UP_AFTER
    assert f"another {credentials.OVERLAP // DAY} days" in PAGE
    assert f"first {waits.REPORTED_WITHIN // HOUR} hours after its end" in PAGE
    plain = Settings()
    for name in ("store_journal_kept_days", "temporary_grants_per_hour", "temporary_grants"):
        assert f"| `{name}` | {str(getattr(plain, name)).lower()} |" in PAGE


@pytest.mark.parametrize(("section", "statuses"), [("The journal", Status), ("Products from the store", rules.Status)])
def test_every_status_is_explained(section: str, statuses: Any) -> None:
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \| [A-Z]", text, re.MULTILINE)) == set(statuses.__args__)


def test_every_store_that_can_be_connected_has_a_set_up_page_and_its_fields_in_the_guide() -> None:
    for store, form in CREDENTIAL_FORMS.items():
        assert all(re.search(rf"\b{field.name}\b", PAGE) for field in form.fields if field.required), store
        assert (TEMPLATES / f"setup_{store}.html").exists()


def test_the_page_about_stripe_names_every_event_and_the_version_that_the_stripe_emulator_speaks_too() -> None:
    page = (ROOT / "docs" / "stores-stripe.md").read_text()
    listed = page.partition("### Events to subscribe to\n")[2].partition("\n\n")[0]
    assert re.findall(r"`([\w.]+)`", listed) == list(credentials.STRIPE_EVENTS)
    assert f"version `{api.API_VERSION}`" in page
    assert api.API_VERSION == stripe_objects.API_VERSION
