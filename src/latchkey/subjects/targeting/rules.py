"""Which targeting rule decides for a customer."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from latchkey.domain.catalog import TargetingRule
from latchkey.domain.refusal import Invalid
from latchkey.subjects.segments.rules.filter import AUDIENCE_NAMES, AudienceFilter, parse_audience, written
from latchkey.subjects.segments.rules.matching import Viewer, unmet


def checked_conditions(conditions: Mapping[str, str]) -> dict[str, str]:
    """In one spelling. A name that conditions do not have, or an empty value, is refused: if it were ignored, the rule
    would be for more customers than was meant."""
    for name, text in conditions.items():
        if name not in AUDIENCE_NAMES:
            message = f"A rule has no condition {name[:50]!r}. It has {', '.join(sorted(AUDIENCE_NAMES))}."
            raise Invalid(message, param="conditions")
        if not text.strip():
            raise Invalid(f"{name} is empty. Leave it out, or give a value.", param=name)
    return written(parse_audience(conditions))


def audience_of(rule: TargetingRule) -> AudienceFilter:
    return _audience(tuple(rule.conditions.items()))


# Apps ask at every start, and rules change seldom.
@lru_cache(maxsize=10_000)
def _audience(conditions: tuple[tuple[str, str], ...]) -> AudienceFilter:
    return parse_audience(dict(conditions))


def first_match(rules: Iterable[TargetingRule], viewer: Viewer) -> TargetingRule | None:
    return next((rule for rule in rules if rule.is_active and not unmet(audience_of(rule), viewer)), None)
