"""Destinations: webhooks whose address, headers and body come from a preset.

A preset is a JSON file in `destinations/`. Texts in it may contain expressions in `{{ }}`, as templates of Jinja have
them. A text that is one expression becomes its value, whatever its type; a field whose value is null is left out. So
the result is always valid JSON.

What a template can cost is bounded: its expressions have few characters, nothing can be called in them, objects have no
attributes, and the filters of one rendering read and write so many characters. A template of one's own has no secrets:
only presets write them, where a log can mask them.
"""

import base64
import hashlib
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit

import msgspec
from jinja2 import TemplateError, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment
from msgspec import Struct, json, structs

from latchkey.domain.events.customer_event import EventType
from latchkey.domain.instants import to_iso
from latchkey.domain.refusal import Refusal
from latchkey.wire.event import Event

HIDDEN = "••••"
# The preset whose body the operator writes.
OWN = "custom"
# Of a template: it takes about half a millisecond to compile an expression.
MOST_EXPRESSIONS = 100
# In characters: all expressions of a template, and what filters read and write for one event.
LONGEST_EXPRESSIONS = 2048
MOST_WORK = 64 * 1024
# What each use of a filter counts for, besides its texts.
_EACH = 64
LARGEST_BODY = 256 * 1024

_FILTERS = frozenset(
    {"abs", "capitalize", "default", "first", "float", "int", "last", "length", "lower"}
    | {"string", "trim", "truncate", "upper"}
)
_EVENT_FIELDS = frozenset(field.name for field in structs.fields(Event))
_NAMES = frozenset({"event", "attributes", "settings", "line", "revenue", "seconds", "iso", "customer_url"})


class PresetField(Struct, frozen=True, kw_only=True):
    name: str
    label: str
    hint: str = ""
    is_secret: bool = msgspec.field(default=False, name="secret")
    # What the whole value has to match.
    pattern: str = r"[!-~]+"
    # A field without a default is required.
    default: str | None = None


class Preset(Struct, frozen=True, kw_only=True):
    title: str
    # Where to find what the fields ask for.
    help: str
    fields: tuple[PresetField, ...]
    url: str
    headers: dict[str, str] = {}
    # Without this attribute of the customer the provider cannot know who it is about, and nothing is sent.
    requires: str | None = None
    # Sent as a form, not as JSON.
    form: bool = False
    # Of the operator's own preset: an example, to begin with.
    body: Any = None


class DestinationSetup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As it is stored, sealed."""

    preset: str
    settings: dict[str, str] = {}
    template: Any = None


class Outgoing(NamedTuple):
    """What is sent for an event. Headers of its own are those of a destination: it gets no signature."""

    url: str
    body: bytes
    headers: Sequence[tuple[str, str]] | None = None


@cache
def presets() -> dict[str, Preset]:
    """By name, in the order in which they are shown."""
    folder = files("latchkey.subjects.webhooks").joinpath("destinations")
    found = {
        file.name.removesuffix(".json"): json.decode(file.read_bytes(), type=Preset)
        for file in folder.iterdir()
        if file.name.endswith(".json")
    }
    return dict(sorted(found.items(), key=lambda item: (item[0] == OWN, item[1].title.lower())))


class _Environment(SandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002 - dicts have items
        return False

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        # A text times a billion would take all memory, and so would a power.
        if operator == "**" or not all(isinstance(value, int | float) for value in (left, right)):
            raise SecurityError(f"{operator} {'is not allowed' if operator == '**' else 'works with numbers only'}")
        return super().call_binop(context, operator, left, right)


def _ulid(text: str) -> str:
    """A ULID that is always the same for the same text."""
    number = int.from_bytes(hashlib.sha256(str(text).encode()).digest()[:16])
    return "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[number >> shift & 31] for shift in range(125, -1, -5))


class _Work:
    """What the filters of one rendering may still read and write."""

    left = MOST_WORK

    def spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise SecurityError(f"filters read and write more than {MOST_WORK:,} characters")


def _counted(apply: Callable[..., Any], grows: Callable[..., int] = lambda *_: 0) -> Callable[..., Any]:
    """A filter that spends. `grows`: by how much its text becomes longer, if that can be much."""

    @pass_context
    def counted(context: Mapping[str, Any], *given: Any) -> Any:
        work: _Work = context["work"]
        work.spend(_EACH + sum(map(_length, given)))
        work.spend(grows(*given))
        made = apply(*given)
        work.spend(_length(made))
        return made

    return counted


def _length(value: Any) -> int:
    return 0 if isinstance(value, int | float | None) else len(str(value))


def _environment() -> _Environment:
    # Computed ahead, an infinite number is a name that nothing has.
    made = _Environment(cache_size=0, optimized=False)
    # These three are given the environment first.
    theirs = {name: made.filters[name] for name in _FILTERS}
    theirs |= {name: partial(theirs[name], made) for name in ("first", "last", "truncate")}
    ours: dict[str, Callable[..., Any]] = {
        "sha256": lambda text: None if not text else hashlib.sha256(str(text).strip().lower().encode()).hexdigest(),
        # A phone number as it is hashed: with its country code, without + and leading zeros.
        "digits": lambda text: re.sub(r"\D", "", str(text)).lstrip("0"),
        "ulid": _ulid,
        "base64": lambda text: base64.b64encode(str(text).encode()).decode(),
        "tojson": lambda value: json.encode(_defined(value)).decode(),
        "path": lambda text: quote(str(text), safe=""),
        "title": lambda text: str(text).title(),
        "round": lambda value, digits=0: round(float(value), min(max(int(digits), 0), 10)),
        # In the texts of Slack these three begin links and mentions.
        "slack": lambda text: str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    }
    made.filters = {name: _counted(apply) for name, apply in (theirs | ours).items()} | {
        "replace": _counted(
            lambda text, old, new: str(text).replace(old, new),
            lambda text, old, new: str(text).count(old) * len(new),
        ),
        "join": _counted(
            lambda values, between="": between.join(map(str, values)),
            lambda values, between="": len(values) * len(between),
        ),
    }
    made.globals.clear()
    return made


_ENVIRONMENT = _environment()

Rendering = Callable[[Mapping[str, Any]], Any]


def _compiled(value: Any) -> Rendering:
    """Raises TemplateError."""
    if isinstance(value, dict):
        fields = {name: _compiled(inner) for name, inner in value.items()}
        return lambda context: {
            name: shown for name, render in fields.items() if (shown := render(context)) is not None
        }
    if isinstance(value, list):
        items = [_compiled(inner) for inner in value]
        return lambda context: [shown for render in items if (shown := render(context)) is not None]
    if isinstance(value, str) and "{{" in value:
        return _text(value)
    return lambda _: value


def _split(text: str) -> tuple[list[str], list[str]]:
    """What is around expressions, and the expressions."""
    begins, *rest = text.split("{{")
    parts = [part.partition("}}") for part in rest]
    if not all(closed for _, closed, _ in parts):
        raise TemplateError("An expression begins with {{ and is not closed.")
    return [begins, *(after for _, _, after in parts)], [source for source, _, _ in parts]


def _template(template: Any) -> Rendering:
    """Of an operator."""
    sources = _split(json.encode(template).decode())[1]
    if len(sources) > MOST_EXPRESSIONS or sum(map(len, sources)) > LONGEST_EXPRESSIONS:
        raise TemplateError(
            f"It has more than {MOST_EXPRESSIONS} expressions, or {LONGEST_EXPRESSIONS:,} characters in them."
        )
    return _compiled(template)


def _text(text: str) -> Rendering:
    texts, sources = _split(text)
    expressions = [_expression(source) for source in sources]
    if texts == ["", ""]:
        return expressions[0]

    def rendered(context: Mapping[str, Any]) -> str:
        shown = ["" if (value := render(context)) is None else str(value) for render in expressions]
        return "".join(one for pair in zip(texts, [*shown, ""], strict=True) for one in pair)

    return rendered


def _expression(source: str) -> Rendering:
    tree = _ENVIRONMENT.parse("{{" + source + "}}")
    if tree.find(nodes.Call):
        raise TemplateError("Nothing can be called in an expression.")
    if unknown := {node.name for node in tree.find_all(nodes.Name)} - _NAMES:
        raise TemplateError(f"There is no {min(unknown)!r}. There are {', '.join(sorted(_NAMES))}.")
    if math.inf in [constant.value for constant in tree.find_all(nodes.Const)]:
        raise TemplateError("A number is larger than 1.8e308.")
    for name in _fields_of_event(tree):
        if name not in _EVENT_FIELDS:
            raise TemplateError(f"An event has no field {name!r}.")
    evaluate = _ENVIRONMENT.compile_expression(source, undefined_to_none=True)

    def value(context: Mapping[str, Any]) -> Any:
        return _defined(evaluate(**context))

    return value


def _fields_of_event(tree: nodes.Template) -> list[str]:
    """In `event.id` and `event['id']`."""
    found = [(node.node, node.attr) for node in tree.find_all(nodes.Getattr)]
    items = [(node.node, node.arg) for node in tree.find_all(nodes.Getitem)]
    found += [(of, str(name.value)) for of, name in items if isinstance(name, nodes.Const)]
    return [name for of, name in found if isinstance(of, nodes.Name) and of.name == "event"]


def _defined(value: Any) -> Any:
    """Without what an expression has not found, and without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: inner for name, one in value.items() if (inner := _defined(one)) is not None}
    if isinstance(value, list | tuple):
        return [_defined(inner) for inner in value]
    if not isinstance(value, str | int | float | Undefined | None):
        raise TemplateError("An expression has to be a text, a number, a list or an object.")
    return None if isinstance(value, Undefined) or (isinstance(value, float) and not math.isfinite(value)) else value


@contextmanager
def _explained() -> Iterator[None]:
    """What is wrong with a template, as a refusal."""
    try:
        yield
    except TemplateError as error:
        raise Refusal(f"The template is not right: {error.message}", param="destination.template") from None
    except RecursionError:
        raise Refusal("The template is nested too deeply.", param="destination.template") from None
    except Exception as error:
        # Filters raise whatever they like.
        raise Refusal(f"The template fails: {error}", param="destination.template") from None


class _Settings(dict[str, str]):
    def __missing__(self, name: str) -> str:
        raise SecurityError(f"there is no setting {name!r} in a template: secrets are only in headers and addresses")


class CompiledDestination:
    """A destination, ready to be used for many events. What fails in its template is refused, also for an event that is
    unlike those it was tried with."""

    def __init__(self, destination: DestinationSetup) -> None:
        self.preset = preset = presets()[destination.preset]
        given = destination.settings
        self.settings = {field.name: given.get(field.name, field.default or "") for field in preset.fields}
        self._url = _compiled(preset.url)
        self._headers = _compiled(preset.headers)
        with _explained():
            own = destination.template is not None
            self._body = _template(destination.template) if own else _compiled(preset.body)
        public = {field.name for field in preset.fields if not (own and field.is_secret)}
        self._of_body = _Settings((name, value) for name, value in self.settings.items() if name in public)
        hidden = [self.settings[field.name] for field in preset.fields if field.is_secret]
        # A header may have them in Base64.
        authorization = self._headers(context_of(_NOBODY, self.settings, "")).get("Authorization") or ""
        hidden.append(authorization.partition(" ")[2])
        self.secrets = [written for secret in hidden for written in _written(secret)]

    @property
    def why_not(self) -> str:
        return f"Not sent: the customer has no attribute {self.preset.requires}."

    def outgoing(self, event: bytes, dashboard: str = "") -> Outgoing | None:
        """What to send for a stored event. None: nothing, because the customer lacks the required attribute."""
        context = context_of(json.decode(event), self.settings, dashboard)
        if self.preset.requires is not None and not context["attributes"].get(self.preset.requires):
            return None
        with _explained():
            body = self._body(context | {"settings": self._of_body})
            form = urlencode({name: value for name, value in body.items() if value != ""}) if self.preset.form else ""
            encoded = form.encode() if self.preset.form else json.encode(body)
            headers, url = dict(self._headers(context)), self._url(context)
        if len(encoded) > LARGEST_BODY:
            raise Refusal(f"The body has more than {LARGEST_BODY:,} bytes.", param="destination.template")
        if self.preset.form:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        return Outgoing(url, encoded, tuple(headers.items()))

    def masked(self, outgoing: Outgoing) -> Outgoing:
        """As it may be shown and logged, with a body that is JSON."""
        headers = [(name, self.masked_header(name, value)) for name, value in outgoing.headers or ()]
        body = outgoing.body.decode()
        shown = _hidden_in_texts(dict(parse_qsl(body)) if self.preset.form else json.decode(body), self.secrets)
        return Outgoing(hidden_in(outgoing.url, self.secrets), json.encode(shown), headers)

    def masked_header(self, name: str, value: str) -> str:
        # Of an Authorization only the scheme remains: a password may be part of a longer text in Base64.
        return masked(value) if name == "Authorization" else hidden_in(value, self.secrets)

    @property
    def url(self) -> str:
        """The address for a customer without a name."""
        url: str = self._url(context_of(_NOBODY, self.settings, ""))
        return url

    @property
    def shown_url(self) -> str:
        """The address without secrets and without what depends on an event."""
        shown = hidden_in(self.url, self.secrets).replace(quote(_NOBODY["app_user_id"]), _NOBODY["app_user_id"])
        # Of an address that is a secret only the host remains.
        return f"https://{urlsplit(self.url).netloc}/{HIDDEN}" if shown == HIDDEN else shown


def masked(authorization: str) -> str:
    """The Authorization value for the log: only the scheme remains."""
    scheme, _, rest = authorization.partition(" ")
    return f"{scheme} {HIDDEN}" if rest else HIDDEN


@lru_cache(maxsize=512)
def compiled(stored: str) -> CompiledDestination:
    """From the stored text of a destination."""
    return CompiledDestination(json.decode(stored, type=DestinationSetup))


def _written(secret: str) -> set[str]:
    """A secret as it is, in JSON, in an address and in a form."""
    forms = {secret, json.encode(secret).decode()[1:-1], quote(secret, safe=""), quote_plus(secret)}
    return forms if secret else set()


def hidden_in(text: str, secrets: Sequence[str]) -> str:
    """The text as it may be stored and shown."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _hidden_in_texts(value: Any, secrets: Sequence[str]) -> Any:
    """Not in numbers, which a secret of a few digits may be a part of."""
    if isinstance(value, str):
        return hidden_in(value, secrets)
    if isinstance(value, dict):
        return {name: _hidden_in_texts(one, secrets) for name, one in value.items()}
    return [_hidden_in_texts(one, secrets) for one in value] if isinstance(value, list) else value


def context_of(event: dict[str, Any], settings: Mapping[str, str], dashboard: str) -> dict[str, Any]:
    """The names that expressions know."""
    sign = -1 if event["type"] == EventType.REFUND else 1
    customer = quote(event["app_user_id"], safe="")
    return {
        "event": event,
        "attributes": {name: held["value"] for name, held in (event.get("subscriber_attributes") or {}).items()},
        "settings": settings,
        "line": line(event),
        # In USD; negative for a refund, null where no money moved.
        "revenue": round(sign * event.get("price", 0), 2) or None,
        "seconds": event["event_timestamp_ms"] // 1000,
        "iso": to_iso(event["event_timestamp_ms"]),
        "customer_url": f"{dashboard}/customers/{customer}" if dashboard else None,
        # No name of expressions: for filters.
        "work": _Work(),
    }


_LINES = tomllib.loads((files(__package__) / "lines.toml").read_text(encoding="utf-8"))


def line(event: Mapping[str, Any]) -> str:
    """The event as a sentence for people."""
    amount = event.get("price_in_purchased_currency") or 0
    money = f" for {amount:,.2f} {event.get('currency')}" if amount else ""
    words = _LINES.get(event["type"], event["type"].replace("_", " ").lower())
    said = words.format(
        product=event.get("product_id") or "a product",
        new=event.get("new_product_id") or "another product",
        currency=event.get("currency") or "a currency",
        money=money,
    )
    sandbox = " (sandbox)" if event["environment"] == "SANDBOX" else ""
    return f"{event['app_user_id']} {said}{sandbox}"


_NOBODY: dict[str, Any] = {
    "type": "TEST",
    "app_user_id": "…",
    "event_timestamp_ms": 0,
    "environment": "PRODUCTION",
}
