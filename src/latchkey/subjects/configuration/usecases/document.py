"""The form of the file: its sections and their fields. Use cases of each subject check what fields mean."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

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
Ids = Annotated[list[Key], Field(max_length=100)]
Reference = Annotated[
    str, Field(max_length=registry.LONGEST_HEADER, json_schema_extra={"pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"})
]
Type = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": sorted(TYPES)})]
Conditions = Annotated[
    dict[Key, Text], Field(max_length=20, json_schema_extra={"propertyNames": {"enum": sorted(AUDIENCE_NAMES)}})
]
Wait = Annotated[int, Field(ge=1, le=registry.LONGEST_WAIT_SECONDS)]


class Entry(BaseModel):
    """What is not given stays as it is; null removes it, where that is possible."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def given(text: str = "") -> Any:
    """A field that may be left out, but not null."""
    return Field(default_factory=lambda: None, description=text or None)


class AppEntry(Entry):
    """An app in one store, by its id. Its credentials are not in the file."""

    name: Text = given()
    store: AppStore = given("Cannot be changed later.")
    bundle_id: Text | None = None
    package_name: Text | None = None
    stripe_account_id: Text | None = None
    app_name: Text | None = None
    support_email: Text | None = None
    default_currency: Text | None = None
    deep_link: Text | None = None
    paddle_is_sandbox: bool | None = None


class CurrencyEntry(Entry):
    """A virtual currency, by its code."""

    name: Text = given()
    description: Text = given()


class EntitlementEntry(Entry):
    """By its id."""

    display_name: Text = given("Default: the id.")


class CreditsEntry(Entry):
    code: Key
    amount: int


class ProductEntry(Entry):
    """By its id in the store. A new one needs a type, a price and a currency."""

    display_name: Text = given("Default: the id.")
    type: Literal["subscription", "one_time", "consumable", "non_consumable", "non_renewing_subscription"] = given()
    price: Annotated[float, Field(ge=0)] = given()
    currency: Key = given("Such as USD.")
    duration: Key | None = Field(default=None, description="Such as P1M. Null: only the store knows.")
    trial_duration: Key | None = None
    credits: CreditsEntry | None = None
    app_ids: Ids = given("Where it is sold; empty means in every app.")
    entitlement_ids: Ids = given("What it grants. Customers gain and lose access at once.")
    prices: Annotated[dict[Key, Annotated[float, Field(ge=0)]], Field(max_length=1000)] = given(
        "Prices beside its own, by `store.country.currency`, with `-` for any store or country: `-.DE.EUR`."
    )


class PackageEntry(Entry):
    display_name: Text = given("Default: the key.")
    products: Annotated[dict[Key, Literal["all", "google_sdk_lt_6", "google_sdk_ge_6"]], Field(max_length=100)] = given(
        "By product, which SDKs get it."
    )


class OfferingEntry(Entry):
    """By its lookup key."""

    display_name: Text = given("Default: the key.")
    is_current: bool = given()
    metadata: dict[str, Any] | None = None
    packages: Annotated[dict[Key, PackageEntry], Field(max_length=100)] = given("By lookup key, in their order.")


class PlacementEntry(Entry):
    """By its id."""

    display_name: Text = given("Default: the id.")
    offering: Key | None = Field(default=None, description="The offering's lookup key. Null: nothing is offered.")
    is_fallback: bool = given()


class TargetingRuleEntry(Entry):
    """By its id. Rules apply in their order; the first one that matches counts."""

    name: Text = given("Default: the id.")
    offering: Key = given("The offering's lookup key.")
    conditions: Conditions = given("All must hold. Empty: everybody.")
    is_active: bool = given()


class VariantEntry(Entry):
    weight: int = given("Cannot be changed later.")
    offering: Key | None = Field(default=None, description="A lookup key. Null: the current offering.")


class ExperimentEntry(Entry):
    """By its id. Only the offerings of its variants can be changed later."""

    name: Text = given()
    variants: dict[Key, VariantEntry] = given()


class DestinationEntry(Entry):
    preset: Key
    settings: Annotated[dict[Key, Text], Field(max_length=20)] = given("What is left out stays as it is.")
    template: Any = Field(default=None, description="Of the preset `custom`: the JSON to send.")


class WebhookEntry(Entry):
    """By its name, with a URL or a destination. `${NAME}` in the URL, the header and the settings of a destination is a
    variable of the environment."""

    url: Annotated[str, Field(min_length=1, max_length=registry.LONGEST_URL)] = given()
    authorization_header: Reference | None = Field(
        default=None, description="Only with a reference, such as `Bearer ${TOKEN}`."
    )
    destination: DestinationEntry = given("A service that gets events in its own form.")
    environment: Literal["production", "sandbox"] | None = Field(default=None, description="Null is both.")
    event_types: list[Type] = given("Empty is all.")
    app_id: Key | None = None
    retry_schedule_seconds: Annotated[list[Wait], Field(max_length=registry.MOST_RETRIES)] = given()
    in_flight_limit: Annotated[int, Field(ge=1, le=registry.LARGEST_IN_FLIGHT)] = given()
    enabled: bool = given()
    dialect: Literal["latchkey", "revenuecat"] = given()


class Document(Entry):
    """A project's configuration for `latchkey config`. What is not in it is left alone."""

    apps: dict[Key, AppEntry] = given()
    currencies: dict[Key, CurrencyEntry] = given()
    entitlements: dict[Key, EntitlementEntry] = given()
    products: dict[Key, ProductEntry] = given()
    offerings: dict[Key, OfferingEntry] = given()
    placements: dict[Key, PlacementEntry] = given()
    targeting_rules: dict[Key, TargetingRuleEntry] = given()
    experiments: dict[Key, ExperimentEntry] = given()
    webhooks: dict[Key, WebhookEntry] = given()


# Sections in the order in which they are created: later ones refer to earlier ones.
SECTIONS = tuple(Document.model_fields)
FIELDS = {field for model in Entry.__subclasses__() for field in model.model_fields}


def schema() -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Document.model_json_schema()}


def checked(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The document with the fields that were given, if its form is right."""
    try:
        parsed = Document.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"] if part != "[key]")
        message = (
            "There is no such field."
            if first["type"] == "extra_forbidden"
            else f"{first['msg'].removeprefix('Value error, ')}."
        )
        more = f" ({error.error_count() - 1} more problems.)" if error.error_count() > 1 else ""
        raise Refusal(f"{path}: {message}{more}" if path else message, param=path or None) from None
    written: dict[str, dict[str, Any]] = parsed.model_dump(exclude_unset=True)
    return {section: written[section] for section in SECTIONS if section in written}
