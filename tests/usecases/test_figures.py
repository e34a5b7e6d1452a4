"""Figures from the database: what an overview shows at a moment, for a period."""

from __future__ import annotations

import pytest

from latchkey.domain.catalog import ProductKind
from latchkey.domain.figures import definitions as figures
from latchkey.domain.figures.definitions import CARDS, PERIODS, SERIES, Figure
from latchkey.domain.figures.overview import Amount, Line, Overview
from latchkey.domain.instants import DAY, HOUR, SECOND
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.usecases.catalog.products import Terms, create_product
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.figures.overview import catch_up, overview
from latchkey.usecases.figures.roller import AT_ONCE
from latchkey.usecases.sandbox.clocks import create_clock, create_customer
from tests.usecases.conftest import NOON, Shop

MONTHLY, YEARLY = 9_990_000, 79_990_000


async def look(shop: Shop, days: int = 28, environment: Environment = Environment.SANDBOX) -> Overview:
    assert await catch_up(shop.database, shop.project_id, shop.time)
    return await overview(shop.database, shop.project_id, environment, days, shop.time)


def card(seen: Overview, figure: Figure) -> tuple[float | None, float | None]:
    one = seen.card(figure)
    return one.value, one.previous


async def test_a_project_in_which_nothing_happened_has_nothing_to_show(shop: Shop) -> None:
    seen = await look(shop)
    assert tuple(one.figure for one in seen.cards) == CARDS
    assert tuple(one.figure for one in seen.series) == SERIES
    assert {one.value for one in seen.cards} == {0, None}
    assert all(one.values == (0,) * 28 for one in seen.series)
    assert seen.currencies == ()
    assert (seen.dates[0], seen.dates[-1]) == ("2025-12-13", "2026-01-09")
    assert (seen.behind, seen.as_of) == (0, shop.time)


async def test_a_subscription_is_counted_until_it_ends_by_itself(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    await shop.act("cancel")
    seen = await look(shop)
    assert card(seen, figures.ACTIVE_SUBSCRIPTIONS) == (1, 0)
    assert card(seen, figures.MRR) == (MONTHLY, 0)
    assert card(seen, figures.ARR) == (12 * MONTHLY, 0)
    assert card(seen, figures.REVENUE) == (MONTHLY, 0)
    assert card(seen, figures.NEW_CUSTOMERS) == (1, 0)
    assert card(seen, figures.CHURN) == (None, None)
    assert seen.line(figures.MRR).values == (*(0,) * 27, MONTHLY)
    # Neither the roller nor the clock role ran meanwhile: the end was known before.
    shop.time += 33 * DAY
    later = await overview(shop.database, shop.project_id, Environment.SANDBOX, 28, shop.time)
    assert card(later, figures.ACTIVE_SUBSCRIPTIONS) == (0, 1)
    assert card(later, figures.MRR) == (0, MONTHLY)
    assert card(later, figures.REVENUE) == (0, MONTHLY)
    assert card(later, figures.CHURN) == (1, None)
    assert later.line(figures.EXPIRED).values.index(1) == later.dates.index("2026-02-09")
    assert later.line(figures.ACTIVE_SUBSCRIPTIONS).values[:26] == (*(1,) * 25, 0)


async def test_an_end_later_today_has_not_come_yet(shop: Shop) -> None:
    bought = await shop.act("purchase", product="pro_monthly")
    await shop.act("cancel")
    ends_at = bought.customer.subscriptions[0].current.ends_at
    shop.time = ends_at - 1
    before = await look(shop)
    shop.time = ends_at
    after = await look(shop)
    for seen, active, expired in ((before, 1, 0), (after, 0, 1)):
        assert seen.card(figures.ACTIVE_SUBSCRIPTIONS).value == active
        assert seen.line(figures.ACTIVE_SUBSCRIPTIONS).values[-1] == active
        assert seen.line(figures.EXPIRED).values[-1] == expired
        assert seen.card(figures.CHURN).value == expired


async def test_the_moment_a_period_ago_is_that_moment(shop: Shop) -> None:
    await shop.act("purchase", product="pro_yearly")
    shop.time += 28 * DAY - SECOND
    assert card(await look(shop), figures.ACTIVE_SUBSCRIPTIONS) == (1, 0)
    shop.time += SECOND
    seen = await look(shop)
    assert card(seen, figures.ACTIVE_SUBSCRIPTIONS) == (1, 1)
    assert card(seen, figures.REVENUE) == (0, YEARLY)


async def test_who_came_back_is_no_churn(shop: Shop) -> None:
    for user in ("alice", "bob", "carol", "dave"):
        await shop.act("purchase", user=user, product="pro_yearly")
    await shop.wait(DAY)
    for user in ("alice", "bob"):
        await shop.act("expire", user=user)
    await shop.wait(DAY)
    await shop.act("purchase", user="alice", product="pro_monthly")
    await shop.wait(5 * DAY)
    seen = await look(shop, 7)
    assert card(seen, figures.CHURN) == (0.25, None)
    assert sum(seen.line(figures.EXPIRED).values) == 2
    assert sum(seen.line(figures.RESUBSCRIBED).values) == 1


async def test_a_trial_is_judged_when_it_has_ended(shop: Shop) -> None:
    await shop.act("purchase", user="alice", product="pro_monthly", trial=True)
    await shop.act("purchase", user="bob", product="pro_monthly", trial=True)
    await shop.act("cancel", user="bob")
    seen = await look(shop)
    assert card(seen, figures.ACTIVE_TRIALS) == (2, 0)
    # All trials still run: the rate is unknown, which is not 0 %.
    assert card(seen, figures.TRIAL_CONVERSION) == (None, None)
    await shop.wait(7 * DAY + HOUR)
    seen = await look(shop)
    assert card(seen, figures.TRIAL_CONVERSION) == (0.5, None)
    assert card(seen, figures.ACTIVE_TRIALS) == (0, 0)
    assert card(seen, figures.ACTIVE_SUBSCRIPTIONS) == (1, 0)
    assert seen.line(figures.TRIALS_STARTED).values[-8] == 2
    assert seen.line(figures.TRIALS_CONVERTED).values[-1] == 1
    # It ended in this week, though it began in the one before. Another one that still runs changes nothing.
    await shop.act("purchase", user="carol", product="pro_monthly", trial=True)
    assert card(await look(shop, 7), figures.TRIAL_CONVERSION) == (0.5, None)
    await shop.wait(7 * DAY)
    assert card(await look(shop, 7), figures.TRIAL_CONVERSION) == (1, 0.5)


async def test_a_refund_belongs_to_the_period_of_its_payment(shop: Shop) -> None:
    await shop.act("purchase", user="alice", product="pro_yearly")
    await shop.act("purchase", user="bob", product="coins_100")
    await shop.wait(8 * DAY)
    await shop.act("purchase", user="bob", product="pro_monthly")
    await shop.act("refund", user="alice", product="pro_yearly")
    seen = await look(shop, 7)
    assert card(seen, figures.REFUND_RATE) == (0, 0.5)
    assert card(seen, figures.REVENUE) == (MONTHLY, 1_990_000)
    wider = await look(shop)
    assert card(wider, figures.REFUND_RATE) == (1 / 3, None)
    assert wider.line(figures.REFUNDS).values[-9:] == (1, 0, 0, 0, 0, 0, 0, 0, 0)
    assert wider.line(figures.REFUNDED).values[-9] == YEARLY
    await shop.act("reverse_refund", user="alice", product="pro_yearly")
    assert card(await look(shop, 7), figures.REFUND_RATE) == (0, 0)


async def test_money_is_never_converted_and_the_currency_with_most_payments_leads(shop: Shop) -> None:
    for number, (amount, currency) in enumerate([(5, "EUR"), (6, "EUR"), (900, "JPY")]):
        terms = Terms(kind=ProductKind.SUBSCRIPTION, price=amount, currency=currency, duration="P1M")
        await create_product(shop.database, shop.project_id, f"monthly_{number}", terms, shop.time)
        await shop.act("purchase", user="alice", product=f"monthly_{number}")
    seen = await look(shop)
    assert seen.currencies == ("EUR", "JPY")
    revenue = seen.card(figures.REVENUE)
    assert (revenue.currency, revenue.value, revenue.others) == ("EUR", 11_000_000, (Amount("JPY", 900_000_000, 0),))
    assert seen.line(figures.MRR).values[-1] == 11_000_000
    assert seen.line(figures.MRR).others == (Line("JPY", (*(0,) * 27, 900_000_000)),)
    assert seen.card(figures.ACTIVE_SUBSCRIPTIONS).value == 3


async def test_sandbox_and_production_are_apart(shop: Shop) -> None:
    await shop.act("purchase", user="alice", product="pro_monthly")
    await shop.act("purchase", user="bob", product="pro_yearly", environment=Environment.PRODUCTION)
    assert card(await look(shop), figures.REVENUE) == (MONTHLY, 0)
    assert card(await look(shop, environment=Environment.PRODUCTION), figures.REVENUE) == (YEARLY, 0)


async def newcomers(shop: Shop, days: int = 28) -> tuple[float | None, float | None]:
    return card(await look(shop, days, Environment.PRODUCTION), figures.NEW_CUSTOMERS)


async def test_a_new_customer_counts_in_the_environment_they_bought_in(shop: Shop) -> None:
    await create_customer(shop.changes, shop.project_id, "looking")
    await shop.act("purchase", user="trying", product="pro_monthly")
    await shop.act("purchase", user="paying", product="pro_monthly", environment=Environment.PRODUCTION)
    sandbox, production = (await look(shop)), await look(shop, environment=Environment.PRODUCTION)
    assert card(sandbox, figures.NEW_CUSTOMERS) == (1, 0)
    assert card(production, figures.NEW_CUSTOMERS) == (2, 0)
    assert sandbox.line(figures.NEW_CUSTOMERS).values[-2:] == (0, 1)
    # A customer who was counted in the sandbox buys in production.
    shop.time += DAY
    await shop.act("purchase", user="trying", product="pro_yearly", environment=Environment.PRODUCTION)
    assert card(await look(shop), figures.NEW_CUSTOMERS) == (0, 0)
    assert await newcomers(shop) == (3, 0)
    shop.time += 6 * DAY + HOUR
    assert await newcomers(shop, 7) == (0, 3)
    await shop.act("purchase", user="later", product="pro_monthly")
    shop.time += 7 * DAY - HOUR
    # The previous period ends at this hour of its last day, before "later" was first seen.
    assert card(await look(shop, 7), figures.NEW_CUSTOMERS) == (0, 0)
    shop.time += 2 * HOUR
    assert card(await look(shop, 7), figures.NEW_CUSTOMERS) == (0, 1)


async def test_new_customers_are_all_who_were_first_seen_but_nobody_on_a_test_clock(shop: Shop) -> None:
    await create_clock(shop.database, shop.project_id, "clock", "Clock", NOON, NOON)
    await create_customer(shop.changes, shop.project_id, "tester", "clock")
    await create_customer(shop.changes, shop.project_id, "alice")
    assert await newcomers(shop) == (1, 0)
    for _ in range(12):
        # Counted in steps, and never twice, however long the steps are.
        shop.time += 2 * HOUR
        assert await newcomers(shop) == (1, 0)
    await create_customer(shop.changes, shop.project_id, "bob")
    assert (await look(shop, environment=Environment.PRODUCTION)).line(figures.NEW_CUSTOMERS).values[-2:] == (1, 1)
    assert await shop.database.pool.fetchval("select sum(customers) from figure_newcomers") == 1
    # An erased customer stays counted.
    await erase(shop.changes, shop.project_id, "alice")
    assert await newcomers(shop) == (2, 0)
    shop.time += 7 * DAY + HOUR
    assert await newcomers(shop, 7) == (0, 2)


async def test_a_customer_whose_transaction_is_slow_is_counted_when_it_is_done(shop: Shop) -> None:
    slow = await shop.database.pool.acquire()
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute(
        "insert into customers (project_id, app_user_id, original_app_user_id, state, first_seen_at, last_seen_at)"
        " values ($1, 'slow', 'slow', '{}', $2, $2)",
        shop.project_id,
        shop.time,
    )
    await create_customer(shop.changes, shop.project_id, "quick")
    for _ in range(6):
        shop.time += 2 * SECOND
        assert await newcomers(shop) == (1, 0)
    assert not await shop.database.pool.fetchval("select sum(customers) from figure_newcomers")
    await transaction.commit()
    await shop.database.pool.release(slow)
    for _ in range(6):
        shop.time += 2 * SECOND
        assert await newcomers(shop) == (2, 0)
    assert await shop.database.pool.fetchval("select sum(customers) from figure_newcomers") == 2


async def test_until_everything_is_in_the_overview_says_how_far_it_is(shop: Shop) -> None:
    await shop.act("purchase", product="pro_monthly")
    seen = await overview(shop.database, shop.project_id, Environment.SANDBOX, 28, shop.time)
    assert (seen.behind, seen.as_of) == (1, 0)
    assert await catch_up(shop.database, shop.project_id, shop.time)
    await shop.wait(DAY)
    await shop.act("cancel")
    seen = await overview(shop.database, shop.project_id, Environment.SANDBOX, 28, shop.time)
    assert (seen.behind, seen.as_of) == (1, NOON)


async def test_catching_up_stops_where_it_was_told_to(shop: Shop) -> None:
    await shop.database.pool.execute(
        """insert into events select $1, n, 'e' || n, n, 1, 'X', 'SANDBOX', null, 0, 0, '{}'
        from generate_series(1, $2::int) as n""",
        shop.project_id,
        AT_ONCE + 1,
    )
    await shop.database.pool.execute("update feeds set position = $1", AT_ONCE + 1)
    assert not await catch_up(shop.database, shop.project_id, shop.time, most=AT_ONCE)
    assert await catch_up(shop.database, shop.project_id, shop.time)


@pytest.mark.parametrize("days", [0, 1, 30, 366, -7])
async def test_other_periods_are_refused(shop: Shop, days: int) -> None:
    assert days not in PERIODS
    with pytest.raises(Invalid, match="7, 28, 90 or 365"):
        await overview(shop.database, shop.project_id, Environment.SANDBOX, days, shop.time)


async def test_a_project_that_is_not_there_has_no_figures(shop: Shop) -> None:
    with pytest.raises(NotFound):
        await overview(shop.database, "proj_nothing", Environment.SANDBOX, 28, shop.time)
    with pytest.raises(NotFound):
        await catch_up(shop.database, "proj_nothing", shop.time)


def test_every_figure_says_in_one_sentence_what_it_is() -> None:
    for figure in {*CARDS, *SERIES}:
        assert figure.definition.endswith(".")
        assert figure.definition.count(". ") == 0
        assert len(figure.definition) <= 120
