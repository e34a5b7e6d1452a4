"""docs/import.md says what the code does."""

import re
from pathlib import Path

from typer.main import get_command

from latchkey.cli.main import command_line
from latchkey.domain.stores.store import APP_STORE, PLAY_STORE, STORES, STRIPE
from latchkey.subjects.exports.wire import CustomerRow, TransactionRow, columns
from latchkey.subjects.imports.rules import revenuecat_format as vendor

PAGE = (Path(__file__).parents[2] / "docs" / "import.md").read_text(encoding="utf-8")


def test_every_column_of_the_own_format_is_listed_with_its_meaning() -> None:
    for row in (TransactionRow, CustomerRow):
        for column in columns(row):
            assert re.search(
                rf"^\| `{column.name}`.* \| {column.kind} \| {re.escape(column.doc)} \|$", PAGE, re.MULTILINE
            )


def test_every_option_is_explained() -> None:
    command = get_command(command_line(["import"]))
    assert hasattr(command, "commands")
    options = {name for one in command.commands["import"].params for name in one.opts if name.startswith("--")}
    for name in options - {"--config", "--data", "--help"}:
        assert f"| `{name}" in PAGE, name


def test_what_the_vendors_file_needs_and_how_fast_stores_are_asked() -> None:
    for name in vendor.NEEDED - {"product_identifier", "store_transaction_id"}:
        assert f"`{name}`" in PAGE, name
    apple, google, stripe = (STORES[name].reads_per_second for name in (APP_STORE, PLAY_STORE, STRIPE))
    assert f"{apple} purchases a second for an app in the\n   App Store or Stripe, {google} in" in PAGE
    assert stripe == apple
