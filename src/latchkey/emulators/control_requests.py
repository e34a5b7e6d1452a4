"""What can be asked of a pretend store in JSON: acts on a purchase, which are functions whose keyword parameters are
the options of the act; and durations and prices."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

import msgspec

from latchkey.domain.instants import Duration, parse_duration
from latchkey.domain.money import Price, to_micros
from latchkey.domain.refusal import Invalid

T = TypeVar("T")


class ControlRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Acts:
    """Acts by name. Each is called with the store's books, the moment and the purchase, then with its options. The
    option `for`, which Python cannot have as a parameter, is `duration` there."""

    def __init__(self, **acts: Callable[..., Any]) -> None:
        self._acts = {name: (act, _options(name, act)) for name, act in acts.items()}

    def apply(self, life: Any, now: int, purchase: str, name: str, options: Mapping[str, Any]) -> Any:
        if name not in self._acts:
            raise Invalid(f"There is no act {name!r}, only {', '.join(sorted(self._acts))}.", param="act")
        act, shape = self._acts[name]
        return act(life, now, purchase, **msgspec.structs.asdict(converted(options, shape)))


def _options(name: str, act: Callable[..., Any]) -> type[msgspec.Struct]:
    hints = get_type_hints(act)
    fields: list[Any] = []
    for parameter in list(inspect.signature(act).parameters.values())[3:]:
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
