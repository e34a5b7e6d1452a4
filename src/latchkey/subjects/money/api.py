"""Tax and commission of a project, and what is known of exchange rates."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from latchkey.domain.money.exchange_rates import date_of, day_of
from latchkey.domain.money.fees import Enrolment, Percentages, Program
from latchkey.engine import missing_rates
from latchkey.http.authentication import Call, ReadKey, WriteKey
from latchkey.http.models import Body, CountryCode, StoreName, not_null
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.money import usecases, wire
from latchkey.wire.attributes import from_attributes

router = Router(prefix="/v2/projects/{project_id}/money", tags=["V2 project"])


def _day(text: str) -> str:
    try:
        day_of(text)
    except ValueError:
        raise ValueError("It is not a day such as 2026-01-31.") from None
    return text


Day = Annotated[
    str,
    Field(
        pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        description="A day such as 2026-01-31, UTC.",
        json_schema_extra={"format": "date"},
    ),
    AfterValidator(_day),
]
Rate = Annotated[float, Field(ge=0, le=1)]


class _Dated(Body):
    model_config = ConfigDict(validate_by_alias=True, serialize_by_alias=True)

    starts: Annotated[Day, Field(alias="from")]


class ProgramBody(_Dated):
    store: Literal["app_store", "mac_app_store", "play_store", "amazon"]
    program: Literal["small_business"]
    until: Day | None = None


class PercentagesBody(_Dated):
    store: StoreName | None = None
    country: CountryCode | None = None
    commission_rate: Rate | None = None
    tax_rate: Rate | None = None


class MoneyChanges(Body):
    programs: Annotated[list[ProgramBody], Field(max_length=usecases.MOST)] = not_null()
    percentages: Annotated[list[PercentagesBody], Field(max_length=usecases.MOST)] = not_null()


@router.get("", responses=shows(wire.MoneySettings))
async def read_money(call: ReadKey) -> Response:
    """The project's programs and percentages, the days with exchange rates, and currencies without one."""
    return await _reply(call)


@router.acts("", wire.MoneySettings, "money.changed", about="tax and commission")
async def change_money(call: WriteKey, changes: MoneyChanges) -> Response:
    """Replace the given lists. They count for payments that are first seen from now on."""
    given: dict[str, Any] = {}
    if "programs" in changes.model_fields_set:
        given["programs"] = [
            Enrolment(one.store, Program(one.program), day_of(one.starts), day_of(one.until) if one.until else None)
            for one in changes.programs
        ]
    if "percentages" in changes.model_fields_set:
        given["percentages"] = [
            Percentages(day_of(one.starts), one.store, one.country, one.commission_rate, one.tax_rate)
            for one in changes.percentages
        ]
    await call.run(usecases.change_fees, **given)
    return await _reply(call)


async def _reply(call: Call) -> Response:
    fees, known = await call.run(usecases.load_fees), await usecases.standing(call.database)
    shown = wire.MoneySettings(
        project_id=call.project_id,
        programs=[
            wire.Program(
                store=program.store,
                program=program.program.value,
                starts=date_of(program.starts),
                until=None if program.ends is None else date_of(program.ends),
            )
            for program in fees.enrolments
        ],
        percentages=[
            from_attributes(wire.Percentages, percentages, starts=date_of(percentages.starts))
            for percentages in fees.percentages
        ],
        exchange_rates=[
            wire.RatesOfCurrency(
                currency=rates.currency, first_date=date_of(rates.first), last_date=date_of(rates.last)
            )
            for rates in known.currencies
        ],
        missing_rates=[
            from_attributes(wire.MissingRate, rates, last_date=date_of(rates.last))
            for rates in await call.run(missing_rates.listed, call.now())
        ],
    )
    return reply(shown)
