"""The V2 ids of subscriptions and purchases, and which store ids lead to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from latchkey.domain.customers.promotion import grant
from latchkey.domain.purchases.reference import (
    PREPAID,
    Reference,
    has_transaction,
    kind_of,
    parsed,
    possible_purchases,
    underivable_transactions,
    v2_id,
    written,
)
from latchkey.domain.stores.store import BASE_PLANS
from latchkey.domain.stores.test_store import actions
from tests.domain.shop import CATALOG, NOON, PRO_LIFETIME, bought, someone, subscribed

KINDS = st.sampled_from(["subscription", "purchase"])
# What a database can hold.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)


@given(KINDS, TEXTS.filter(lambda text: ":" not in text), TEXTS)
def test_an_id_names_one_purchase_and_says_of_which_kind_it_is(kind: str, store: str, id: str) -> None:
    reference = Reference(kind, store, id)  # type: ignore[arg-type]  # one of the kinds
    text = written(reference)
    assert parsed(text, reference.kind) == reference
    assert parsed(text, "purchase" if kind == "subscription" else "subscription") is None


@given(st.text(max_size=40))
def test_any_text_is_an_id_or_is_refused(text: str) -> None:
    for kind in ("subscription", "purchase"):
        for prefix in ("", "sub_", "purch_"):
            found = parsed(prefix + text, kind)
            assert found is None or written(found) == prefix + text


def test_ids_of_every_store_fit_the_vendors_255_characters() -> None:
    # An order of Google with an add-on: the longest id that a store gives.
    order = "GPA.3345-1234-5678-90123#" + "p" * 139
    assert len(written(Reference("purchase", "play_store", order))) <= 255


def test_a_prepaid_plan_is_a_subscription_wherever_a_store_has_prepaid_plans() -> None:
    assert BASE_PLANS >= PREPAID
    plan = replace(bought(PRO_LIFETIME), store="play_store", product_id="pro:prepaid")
    assert kind_of(plan) == "subscription"
    assert kind_of(replace(plan, store="test_store")) == "purchase"
    assert kind_of(replace(plan, product_id="pro")) == "purchase"


def test_a_grant_is_a_subscription_and_a_one_time_purchase_is_a_purchase() -> None:
    (given_,) = grant(someone(), "pro", None, NOON).purchases
    assert kind_of(given_) == "subscription"
    assert v2_id(given_).startswith("sub_")
    assert v2_id(subscribed()).startswith("sub_")
    assert v2_id(bought(PRO_LIFETIME)).startswith("purch_")


@pytest.mark.parametrize(
    ("transaction", "purchases"),
    [
        ("test_1_a", ["test_1_a"]),
        ("test_1.12", ["test_1.12", "test_1"]),
        ("GPA.3345-1234..0", ["GPA.3345-1234..0", "GPA.3345-1234"]),
        (".5", [".5"]),
    ],
)
def test_a_later_period_is_named_after_its_purchase(transaction: str, purchases: list[str]) -> None:
    assert possible_purchases(transaction) == purchases


def test_only_periods_that_do_not_name_their_subscription_are_indexed() -> None:
    first = subscribed()
    renewed = actions.renew(first, CATALOG, NOON + 1)
    assert len(renewed.periods) == 2
    assert underivable_transactions(renewed) == frozenset()
    assert all(has_transaction(renewed, one.id) for one in renewed.periods)
    assert has_transaction(renewed, renewed.id)
    assert not has_transaction(renewed, "another")
