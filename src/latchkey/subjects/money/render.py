"""Tax, commission and exchange rates as V2 shows them."""

from collections.abc import Sequence

from latchkey.domain.money.exchange_rates import date_of
from latchkey.domain.money.fees import Fees
from latchkey.engine.storage.catalog.rates import Coverage, MissingRates
from latchkey.subjects.money import wire


def money_settings(
    project_id: str, fees: Fees, known: Sequence[Coverage], missing: Sequence[MissingRates]
) -> wire.MoneySettings:
    return wire.MoneySettings(
        project_id=project_id,
        programs=[
            wire.Program(
                store=one.store,
                program=one.program.value,
                starts=date_of(one.starts),
                until=None if one.ends is None else date_of(one.ends),
            )
            for one in fees.enrolments
        ],
        percentages=[
            wire.Percentages(
                starts=date_of(one.starts),
                store=one.store,
                country=one.country,
                commission_rate=one.commission_rate,
                tax_rate=one.tax_rate,
            )
            for one in fees.percentages
        ],
        exchange_rates=[
            wire.RatesOfCurrency(currency=one.currency, first_date=date_of(one.first), last_date=date_of(one.last))
            for one in known
        ],
        missing_rates=[
            wire.MissingRate(currency=one.currency, days=one.days, last_date=date_of(one.last)) for one in missing
        ],
    )
