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
                store=enrolment.store,
                program=enrolment.program.value,
                starts=date_of(enrolment.starts),
                until=None if enrolment.ends is None else date_of(enrolment.ends),
            )
            for enrolment in fees.enrolments
        ],
        percentages=[
            wire.Percentages(
                starts=date_of(percentage.starts),
                store=percentage.store,
                country=percentage.country,
                commission_rate=percentage.commission_rate,
                tax_rate=percentage.tax_rate,
            )
            for percentage in fees.percentages
        ],
        exchange_rates=[
            wire.RatesOfCurrency(
                currency=coverage.currency, first_date=date_of(coverage.first), last_date=date_of(coverage.last)
            )
            for coverage in known
        ],
        missing_rates=[
            wire.MissingRate(currency=rates.currency, days=rates.days, last_date=date_of(rates.last))
            for rates in missing
        ],
    )
