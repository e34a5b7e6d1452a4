"""Tax and commission of a project, and what is known of exchange rates."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field
from starlette.responses import Response

from latchkey.domain.money.exchange_rates import day_of
from latchkey.domain.money.fees import Enrolment, Percentages, Program
from latchkey.engine import missing_rates
from latchkey.http.audited import audited
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.models import Body, CountryCode, StoreName, not_null
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided
from latchkey.subjects.money import render, usecases, wire

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
async def read_money(services: Provided, caller: ReadKey) -> Response:
    """The project's programs and percentages, the days with exchange rates, and currencies without one."""
    return await _reply(services, caller.project_id)


@router.post("", responses=shows(wire.MoneySettings))
@audited("money.changed", about="tax and commission")
async def change_money(services: Provided, caller: WriteKey, changes: MoneyChanges) -> Response:
    """Replace the given lists. They count for payments that are first seen from now on."""
    given = changes.model_fields_set
    await usecases.change_fees(
        services.database,
        caller.project_id,
        programs=[_program(program) for program in changes.programs] if "programs" in given else None,
        percentages=[_percentages(percentage) for percentage in changes.percentages]
        if "percentages" in given
        else None,
    )
    return await _reply(services, caller.project_id)


def _program(one: ProgramBody) -> Enrolment:
    until = None if one.until is None else day_of(one.until)
    return Enrolment(one.store, Program(one.program), day_of(one.starts), until)


def _percentages(one: PercentagesBody) -> Percentages:
    return Percentages(day_of(one.starts), one.store, one.country, one.commission_rate, one.tax_rate)


async def _reply(services: Provided, project_id: str) -> Response:
    known = await usecases.standing(services.database)
    missing = await missing_rates.listed(services.database, project_id, services.now())
    found = await usecases.load_fees(services.database, project_id)
    return reply(render.money_settings(project_id, found, known.currencies, missing))
