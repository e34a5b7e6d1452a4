"""Checking the settings of a destination before they are stored, and showing what would be sent."""

import re
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from msgspec import Raw, json

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Checks, Refusal
from latchkey.subjects.webhooks.delivery.destination import OWN, DestinationSetup, PresetField, compiled, presets
from latchkey.subjects.webhooks.usecases.samples import TYPES, event_for_test, with_attribute
from latchkey.subjects.webhooks.wire import DestinationPreview

LARGEST_TEMPLATE = 16 * 1024
LONGEST_SETTING = 2048
_EXAMPLE_TIME = 1_800_000_000_000
_EXAMPLE_DASHBOARD = "https://latchkey.example.com/dashboard/projects/proj_sample"


def checked(given: DestinationSetup, before: str | None = None) -> str:
    """The text to store. `before` is the stored one: what is not given stays, so that a secret need not be sent again.
    Refused with a template's own error."""
    preset = presets().get(given.preset)
    if preset is None:
        raise Refusal(f"A preset is one of {', '.join(presets())}.", param="destination.preset")
    kept = json.decode(before, type=DestinationSetup) if before is not None else None
    if kept is not None and kept.preset != given.preset:
        raise Refusal("A destination keeps its preset. Create another one.", param="destination.preset")
    settings = (kept.settings if kept is not None else {}) | given.settings
    template = given.template if given.template is not None or kept is None else kept.template
    if unknown := settings.keys() - {field.name for field in preset.fields}:
        raise Refusal(f"{preset.title} has no setting {min(unknown)!r}.", param="destination.settings")
    with Checks() as check:
        for field in preset.fields:
            check(_check, field, settings.get(field.name, field.default))
    if (template is not None) != (given.preset == OWN):
        words = "needs a template" if given.preset == OWN else "has a body of its own: leave out the template"
        raise Refusal(f"{preset.title} {words}.", param="destination.template")
    if len(json.encode(template)) > LARGEST_TEMPLATE:
        raise Refusal(f"A template has at most {LARGEST_TEMPLATE:,} bytes.", param="destination.template")
    stored = json.encode(DestinationSetup(preset=given.preset, settings=settings, template=template)).decode()
    if before is not None:
        address = compiled(stored).url
        # A region leads to another host of the same service.
        if any(urlsplit(address).netloc in value for value in settings.values()):
            for field in preset.fields:
                if field.is_secret and field.name not in given.settings and settings.get(field.name):
                    require_same_host(compiled(before).url, address, f"destination.settings.{field.name}")
    # Refused if the template fails.
    preview(stored, _EXAMPLE_TIME)
    return stored


def require_same_host(before: str, after: str | None, param: str) -> None:
    """A stored secret goes to the host that it was entered for. For another host it has to be sent again: whoever may
    change an address does not learn the secret by it."""
    if after is not None and urlsplit(before).netloc.lower() != urlsplit(after).netloc.lower():
        raise Refusal(
            "The address is on another host. The stored secret is not sent there: give it again.", param=param
        )


def _check(field: PresetField, value: str | None) -> None:
    param = f"destination.settings.{field.name}"
    if value is None:
        raise Refusal(f"{field.label} is missing.", param=param)
    right = len(value) <= LONGEST_SETTING and (re.fullmatch(field.pattern, value) or value == field.default)
    if not right:
        # The value may be a secret: it is not repeated.
        raise Refusal(f"{field.label} is not in its usual form. {field.hint}".strip(), param=param)


def preview(stored: str, now: Ms) -> list[DestinationPreview]:
    """What would be sent for a sample event of every type, with secrets masked."""
    made = compiled(stored)
    shown = []
    for type in TYPES:
        event = json.encode(event_for_test(type, now, str(uuid5(NAMESPACE_URL, type))))
        outgoing = made.outgoing(with_attribute(stored, event), _EXAMPLE_DASHBOARD)
        assert outgoing is not None, "the sample customer has what a destination requires"
        masked = made.masked(outgoing)
        shown.append(
            DestinationPreview(type=type, url=masked.url, headers=dict(masked.headers or ()), body=Raw(masked.body))
        )
    return shown
