"""Requests of the control API: acts on a purchase, durations and prices."""

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

import msgspec

from latchkey.domain.instants import Duration, parse_duration
from latchkey.domain.money.amounts import Price, to_micros
from latchkey.domain.refusal import Invalid, Refusal

T = TypeVar("T")


class ControlRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class PriceRequest(ControlRequest, frozen=True, kw_only=True):
    amount: float = msgspec.field(name="price", default=9.99)
    currency: str = "USD"

    @property
    def price(self) -> Price:
        return price_of(self.amount, self.currency)


class ProductRequest(PriceRequest, frozen=True, kw_only=True):
    """A product of a store's books, in the form in which the control API takes it."""

    id: str
    lasts: str | None = msgspec.field(name="period", default=None)
    free_for: str | None = msgspec.field(name="trial", default=None)
    # False: the store lists it as archived. It still sells it, to whoever asks.
    on_sale: bool = True
    # By the store's name of the country: {"DEU": {"price": 10.99, "currency": "EUR"}}. These are only listed.
    others: dict[str, PriceRequest] = msgspec.field(name="elsewhere", default_factory=dict)

    def __post_init__(self) -> None:
        """Whatever cannot be read is refused when it comes in."""
        _ = self.price, self.period, self.trial, self.elsewhere

    @property
    def period(self) -> Duration | None:
        return duration_of(self.lasts, "period") if self.lasts else None

    @property
    def trial(self) -> Duration | None:
        return duration_of(self.free_for, "trial") if self.free_for else None

    @property
    def elsewhere(self) -> dict[str, Price]:
        return {country: one.price for country, one in self.others.items()}


class SaleRequest(ControlRequest, frozen=True, kw_only=True):
    # As Latchkey names it: with the base plan of Google, or the price of Stripe, after a colon.
    product_id: str
    # The customer of the store.
    buyer: str = "somebody"
    # What the app reports to the store about its user.
    account_token: str | None = None
    trial: bool = False


class Acts:
    """Acts by name. An act is a function of the first module that has it, and its keyword-only parameters are the
    options of the act. The option `for`, which Python cannot have as a parameter, is `duration` there."""

    def __init__(self, names: str, *modules: ModuleType) -> None:
        self._acts: dict[str, tuple[Callable[..., Any], type[msgspec.Struct]]] = {}
        for name in names.split():
            act = next(getattr(module, name) for module in modules if hasattr(module, name))
            self._acts[name] = act, _options(name, act)

    def apply(self, name: str, options: Mapping[str, Any], *context: Any) -> Any:
        """Calls the act with the context (the books and the purchase) and the options."""
        invalid_if(name not in self._acts, f"There is no act {name!r}, only {', '.join(sorted(self._acts))}.", "act")
        act, shape = self._acts[name]
        return act(*context, **msgspec.structs.asdict(converted(options, shape)))


def _options(name: str, act: Callable[..., Any]) -> type[msgspec.Struct]:
    hints = get_type_hints(act)
    fields: list[Any] = []
    for parameter in inspect.signature(act).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            required = parameter.default is inspect.Parameter.empty
            fields.append((parameter.name, hints[parameter.name], *(() if required else (parameter.default,))))
    return msgspec.defstruct(
        name, fields, forbid_unknown_fields=True, kw_only=True, frozen=True, rename={"duration": "for"}
    )


def converted(given: Mapping[str, Any], type: type[T]) -> T:
    """Data from outside as `type`, or a message that says what is wrong with it."""
    try:
        return msgspec.convert(given, type)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from None


def refuse_if(wrong: object, message: str, param: str = "act") -> None:
    """Of what makes no sense as the store's books stand."""
    if wrong:
        raise Refusal(message, param=param)


def invalid_if(wrong: object, message: str, param: str) -> None:
    """Of what makes no sense whatever the books say."""
    if wrong:
        raise Invalid(message, param=param)


def duration_of(text: str, param: str) -> Duration:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Invalid(f"{error}.", param=param) from None


def price_of(amount: float, currency: str) -> Price:
    try:
        return Price(to_micros(amount), currency)
    except ValueError as error:
        raise Invalid(str(error), param="price") from None
