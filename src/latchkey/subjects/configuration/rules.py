"""A project's configuration as things with fields: what a file wants, and what there is.

A thing is named by its place in the file: `("products", "pro")`, `("offerings", "default", "packages", "$rc_monthly")`.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import json

from latchkey.domain.refusal import Refusal

Names: TypeAlias = tuple[str, ...]
Things: TypeAlias = dict[Names, dict[str, Any]]

# Fields that are things of their own: what is not in the file is left alone there, too.
INNER = {"products": "prices", "offerings": "packages"}
HIDDEN = "(hidden)"
_LITERAL = "A secret does not belong into the file. Refer to a variable, such as ${WEBHOOK_TOKEN}."
_SHOWN = "This is shown. Write ${NAME} in authorization_header or in a secret setting of a destination instead."
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# Behind a webhook's name.
_WITH_ID = re.compile(r"\((wh_\w+)\)$")


class Secret(str):
    """A value that is compared, and never shown."""

    __slots__ = ()


def path_of(names: Names, field: str | None = None) -> str:
    return ".".join((*names, *((field,) if field else ())))


def things_of(document: Mapping[str, Mapping[str, Any]]) -> Things:
    """Everything in a document, each thing before those inside it."""
    found: Things = {}
    for section, entries in document.items():
        inner = INNER.get(section, "")
        for key, entry in entries.items():
            found[section, key] = {field: _ordered(field, value) for field, value in entry.items() if field != inner}
            for name, inside in entry.get(inner, {}).items():
                fields = inside if isinstance(inside, dict) else {"price": inside}
                found[section, key, inner, name] = {field: _ordered(field, value) for field, value in fields.items()}
    return found


def _ordered(field: str, value: Any) -> Any:
    """The order of a package's products counts, that of these ids does not."""
    if field == "products":
        return [list(pair) for pair in value.items()]
    return sorted(set(value)) if field in ("app_ids", "entitlement_ids") else value


def document_of(things: Things) -> dict[str, dict[str, Any]]:
    """The document with these things, without their secrets."""
    document: dict[str, dict[str, Any]] = {}
    for (section, key, *inside), thing in things.items():
        fields = _without_secrets(thing)
        if not inside:
            # The order in the file is the position.
            fields.pop("position", None)
            document.setdefault(section, {})[key] = fields
            continue
        if section == "offerings":
            fields = {"display_name": fields["display_name"], "products": dict(fields["products"])}
        entry = fields if section == "offerings" else fields["price"]
        document[section][key].setdefault(inside[0], {})[inside[1]] = entry
    return document


def references(document: Mapping[str, Any]) -> set[str]:
    """The names of the variables that webhooks refer to. The form of the document need not be right."""
    return set(_REFERENCE.findall(json.encode(document.get("webhooks")).decode()))


def _addressing(webhook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Its texts that people write secrets into: where they are, their name there and their path."""
    settings, own = (webhook.get("destination") or {}).get("settings") or {}, ("url", "authorization_header")
    for inside, fields, above in ((webhook, own, ""), (settings, settings, "destination.settings.")):
        yield from ((inside, field, above + field) for field in fields if isinstance(inside.get(field), str))


def resolve(things: Things, variables: Mapping[str, str], secret: Mapping[str, Collection[str]]) -> None:
    """Puts the values of variables in the place of references. `secret`: by preset, the settings of a destination that
    are secret, and like the header do not belong into a file. The others are shown, and refer to nothing."""
    for names, thing in things.items():
        preset = (thing.get("destination") or {}).get("preset", "")
        for inside, field, where in list(_addressing(thing)) if names[0] == "webhooks" else ():
            path, used = path_of(names, where), _REFERENCE.findall(inside[field])
            hidden = field in (("authorization_header",) if inside is thing else secret.get(preset, used and [field]))
            if hidden != bool(used):
                raise Refusal(f"{path}: {_LITERAL if hidden else _SHOWN}", param=path)
            for name in used:
                if not variables.get(name):
                    raise Refusal(f"{path}: The environment has no variable {name}, or it is empty.", param=path)
            if used:
                inside[field] = Secret(_REFERENCE.sub(lambda match: variables[match[1]], inside[field]))


def shown(value: Any, secret: Callable[[Secret], str] = lambda _: HIDDEN) -> Any:
    """A value as a plan shows it; with `str`, as it is stored."""
    if isinstance(value, dict):
        return {name: shown(inside, secret) for name, inside in value.items()}
    return secret(value) if isinstance(value, Secret) else value


def _without_secrets(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_secrets(inside) for name, inside in value.items() if not isinstance(inside, Secret)}


def left_alone(after: Things, wanted: Things) -> list[Names]:
    """What there is and the file does not name. What is inside such a thing is not listed."""
    return [names for names in after if names not in wanted and (len(names) == 2 or names[:2] in wanted)]


def require_one(things: Things, section: str, field: str) -> None:
    """At most one thing of the section can have this."""
    chosen = [names for names in things if names[0] == section and len(names) == 2 and things[names].get(field)]
    if len(chosen) > 1:
        path = path_of(chosen[1], field)
        raise Refusal(f"{path}: Only one can have this, and {path_of(chosen[0])} has it.", param=path)


def webhook_names(names: Mapping[str, str], asked: Iterable[str]) -> dict[str, str]:
    """The ids of webhooks by their names in the file (`asked`), from their own names by id. Those need not be unique:
    an id behind the name decides, whatever other webhooks there are."""
    given: dict[str, str] = {}
    for name in asked:
        path, with_id = path_of(("webhooks", name)), _WITH_ID.search(name)
        ids = [id for id, own in names.items() if (id == with_id[1] if with_id else own == name)]
        if with_id and not ids:
            wrong = f"There is no webhook {with_id[1]}. Remove the entry, or leave out the id for a new webhook."
        elif len(ids) > 1:
            wrong = f"Several have this name. Say which one: {', '.join(f'{name} ({id})' for id in ids)}."
        elif ids and ids[0] in given:
            wrong = f"This is the same webhook as {given[ids[0]]!r}."
        else:
            given |= dict.fromkeys(ids, name)
            continue
        raise Refusal(f"{path}: {wrong}", param=path)
    count = Counter(names.values())
    own = {id: f"{name} ({id})" if count[name] > 1 or _WITH_ID.search(name) else name for id, name in names.items()}
    return {name: id for id, name in (own | given).items()}
