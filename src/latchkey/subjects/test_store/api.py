"""The test store over HTTP: cause any event, and get the result."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args
from uuid import uuid4

from msgspec import convert
from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from latchkey.domain.stores.test_store.orders import NEEDS, TAKES, Action, ActionName
from latchkey.http.authentication import WriteKey
from latchkey.http.models import Body, CountryCode, CurrencyCode, CustomerId, Instant, either_id
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.customers.render import customer_v2
from latchkey.subjects.test_store import usecases
from latchkey.subjects.test_store.wire import EventReference, TestStoreResult

router = Router(tags=["V2 test store"])

ROUTE = "/v2/projects/{project_id}/test_store/actions"

Name = Annotated[str, Field(min_length=1, max_length=200)]


def _each_action_in_words(schema: dict[str, Any]) -> None:
    """For the document: the fields that each action requires and accepts."""
    either_id(schema)
    fields: dict[str, Any] = schema["properties"]
    schema["anyOf"] = [
        {
            "properties": {"action": {"const": name}}
            | {field: _only(fields[field].get("default")) for field in _of_others(name)}
            | ({need: {"not": {"type": "null"}}} if (need := NEEDS.get(name)) else {}),
            "required": [need] if need else [],
        }
        for name in get_args(ActionName)
    ]


def _only(value: object) -> dict[str, Any]:
    # The document drops a null constant, so it is expressed as a type.
    return {"type": "null"} if value is None else {"const": value}


class NewAction(Body):
    """The fields that the action needs are present, and no fields of other actions."""

    model_config = ConfigDict(json_schema_extra=_each_action_in_words)

    action: ActionName
    app_user_id: CustomerId
    product_id: Name | None = None
    environment: Literal["SANDBOX", "PRODUCTION"] = "SANDBOX"
    trial: bool = False
    ownership_type: Literal["PURCHASED", "FAMILY_SHARED"] = "PURCHASED"
    reason: (
        Literal["UNSUBSCRIBE", "BILLING_ERROR", "DEVELOPER_INITIATED", "PRICE_INCREASE", "CUSTOMER_SUPPORT", "UNKNOWN"]
        | None
    ) = None
    grace_days: Annotated[int, Field(ge=0, le=365)] = 0
    new_product_id: Name | None = None
    when: Literal["now", "at_renewal"] = "now"
    resume_at_ms: Instant | None = None
    days: Annotated[int, Field(ge=1, le=3650)] | None = None
    country: CountryCode | None = None
    currency: CurrencyCode | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _fits_the_action(cls, value: Any, validate: ModelWrapValidatorHandler[NewAction]) -> NewAction:
        new = validate(value)
        need = NEEDS.get(new.action)
        if need is not None and getattr(new, need) is None:
            raise _wrong(need, f"The action {new.action} needs it.", value)
        given = new.model_fields_set
        for field in sorted(_OF_OTHERS[new.action] & given):
            if getattr(new, field) != cls.model_fields[field].default:
                raise _wrong(field, f"The action {new.action} does not take it.", value)
        return new


OPTIONAL = NewAction.model_fields.keys() - {"action", "app_user_id", "product_id"}


def _of_others(action: ActionName) -> list[str]:
    """The fields that this action does not take."""
    return sorted(OPTIONAL - TAKES.get(action, frozenset()))


# By action.
_OF_OTHERS = {name: frozenset(_of_others(name)) for name in get_args(ActionName)}


def _wrong(field: str, problem: str, value: Any) -> ValidationError:
    """An error that names the field, like those of single fields."""
    error = PydanticCustomError("invalid", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("NewAction", [InitErrorDetails(type=error, loc=(field,), input=value)])


@router.post(ROUTE, responses=shows(TestStoreResult))
async def act(call: WriteKey, new: NewAction) -> Response:
    """Perform an action in the test store. One that is not possible in the current state gets a 422 with the reason."""
    now = call.now()
    others = {"ownership": new.ownership_type, "at_renewal": new.when == "at_renewal", "resumes_at": new.resume_at_ms}
    named = {"name": new.action, "new_id": f"test_{now}_{uuid4()}"}
    action = convert({**new.model_dump(), **others, **named}, Action)
    done = await usecases.act(call.changes, call.project_id, action)
    result = TestStoreResult(
        events=[EventReference(id=event.id, type=event.type) for event in done.events],
        customer=customer_v2.customer(done.view(call.now())),
    )
    return reply(result)
