"""The form of the file: its sections and their fields. Use cases of each subject check what fields mean."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from latchkey.domain.naming import LONGEST, LONGEST_NAME
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.store import AppStore
from latchkey.subjects.segments.rules.filter import AUDIENCE_NAMES
from latchkey.subjects.webhooks.usecases import registry
from latchkey.subjects.webhooks.usecases.samples import TYPES


def _known(type: str) -> str:
    if type not in TYPES:
        raise ValueError("There is no such event type")
    return type


def _trimmed(key: str) -> str:
    """Use cases remove spaces around names. What has another name than in the file would be created again."""
    if key.strip() != key:
        raise ValueError("Remove the space around it")
    return key


Key = Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(_trimmed)]
Text = Annotated[str, Field(max_length=LONGEST_NAME)]
Price = Annotated[float, Field(ge=0)]
_TYPES: dict[str, Any] = {
    "key": Key,
    "keys": Annotated[list[Key], Field(max_length=100)],
    "text": Text,
    "flag": bool,
    "whole": int,
    "any": Any,
    "object": dict[str, Any],
    "store": AppStore,
    "price": Price,
    "prices": Annotated[dict[Key, Price], Field(max_length=1000)],
    "products": Annotated[dict[Key, Literal["all", "google_sdk_lt_6", "google_sdk_ge_6"]], Field(max_length=100)],
    "conditions": Annotated[
        dict[Key, Text], Field(max_length=20, json_schema_extra={"propertyNames": {"enum": [*sorted(AUDIENCE_NAMES)]}})
    ],
    "url": Annotated[str, Field(min_length=1, max_length=registry.LONGEST_URL)],
    "reference": Annotated[
        str, Field(max_length=registry.LONGEST_HEADER, json_schema_extra={"pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"})
    ],
    "settings": Annotated[dict[Key, Text], Field(max_length=20)],
    "event_types": list[Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": sorted(TYPES)})]],
    "waits": Annotated[
        list[Annotated[int, Field(ge=1, le=registry.LONGEST_WAIT_SECONDS)]], Field(max_length=registry.MOST_RETRIES)
    ],
    "in_flight": Annotated[int, Field(ge=1, le=registry.LARGEST_IN_FLIGHT)],
}


class Entry(BaseModel):
    """What is not given stays as it is; null removes it, where that is possible."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _type(written: str) -> Any:
    """A type's name, some words of which it is one, or entries by their keys: `* App`, or at most `100 Package`."""
    most, _, entry = written.rpartition(" ")
    if "|" in written:
        return Literal[tuple(written.split("|"))]
    if not most:
        return _TYPES[written]
    entries: Any = GenericAlias(dict, (Key, _TYPES[entry]))
    return entries if most == "*" else Annotated[entries, Field(max_length=int(most))]


def _field(written: str | list[str], *, is_needed: bool) -> tuple[Any, Any]:
    type, about = (written, None) if isinstance(written, str) else written
    if is_needed:
        return _type(type), Field(description=about)
    if type.endswith("?"):
        return _type(type[:-1]) | None, Field(default=None, description=about)
    # It may be left out, but not be null.
    return _type(type), Field(default_factory=lambda: None, description=about)


_ENTRIES = tomllib.loads((files(__package__) / "sections.toml").read_text(encoding="utf-8"))
for _name, _said in _ENTRIES.items():
    # What a section needs is only needed of new things.
    _always = () if "audited" in _said else _said.get("needed", ())
    _fields: Any = {name: _field(one, is_needed=name in _always) for name, one in _said["fields"].items()}
    _title = "Document" if _name == "Document" else f"{_name}Entry"
    _TYPES[_name] = create_model(_title, __base__=Entry, __doc__=_said.get("about", "").strip(), **_fields)

Document = _TYPES["Document"]
# By the name of its section: an entry, with its fields in their order, what a new one needs, and its audited actions.
SECTIONS: dict[str, dict[str, Any]] = {
    section: _ENTRIES[entry.rpartition(" ")[2]] for section, entry in _ENTRIES["Document"]["fields"].items()
}
PACKAGE: dict[str, Any] = _ENTRIES["Package"]
FIELDS = {field for entry in _ENTRIES.values() for field in entry["fields"]}


def schema() -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Document.model_json_schema()}


def checked(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The document with the fields that were given, if its form is right."""
    try:
        parsed = Document.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"] if part != "[key]")
        unknown = first["type"] == "extra_forbidden"
        message = "There is no such field." if unknown else f"{first['msg'].removeprefix('Value error, ')}."
        more = f" ({error.error_count() - 1} more problems.)" if error.error_count() > 1 else ""
        raise Refusal(f"{path}: {message}{more}" if path else message, param=path or None) from None
    written: dict[str, dict[str, Any]] = parsed.model_dump(exclude_unset=True)
    return {section: written[section] for section in SECTIONS if section in written}
