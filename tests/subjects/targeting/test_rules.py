"""Which rule matches whom: each condition as a table, and the order of rules."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.catalog import TargetingRule
from latchkey.domain.customers.customer import LastSeen, newcomer
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Invalid
from latchkey.subjects.segments.rules.facets import facets_of
from latchkey.subjects.segments.rules.filter import AUDIENCE_NAMES
from latchkey.subjects.segments.rules.matching import Viewer, unmet
from latchkey.subjects.segments.usecases.customer_lists import conditions, in_words
from latchkey.subjects.targeting.rules import audience_of, checked_conditions, first_match

NOW = 1_800_000_000_000


def viewer(
    platform: str | None = "ios",
    version: str | None = "1.10",
    country: str | None = "DE",
    plan: str | None = "gold",
    entitlements: tuple[str, ...] = (),
    days: int = 3,
) -> Viewer:
    """Somebody who was first seen some days ago."""
    facets = facets_of(newcomer("proj", "ada", NOW - days * DAY), NOW, country)
    seen = LastSeen(NOW, platform, None, version, country)
    return Viewer(facets, NOW, NOW, seen, {} if plan is None else {"plan": plan}, entitlements)


def rule(id: str = "one", *, is_active: bool = True, **wanted: str) -> TargetingRule:
    return rule_with(wanted, id, is_active)


def rule_with(wanted: Mapping[str, str], id: str = "one", is_active: bool = True) -> TargetingRule:
    return TargetingRule(id=id, name=id, offering_id="sale", conditions=checked_conditions(wanted), is_active=is_active)


@pytest.mark.parametrize(
    ("name", "text", "who", "holds"),
    [
        ("country", "DE", viewer(), True),
        ("country", "us, de", viewer(), True),
        ("country", "US", viewer(), False),
        ("country", "US", viewer(country=None), False),
        ("platform", "iOS", viewer(), True),
        ("platform", "android,ios", viewer(), True),
        ("platform", "android", viewer(), False),
        ("platform", "android", viewer(platform=None), False),
        ("app_version_from", "1.9", viewer(), True),
        ("app_version_from", "1.10.0", viewer(), True),
        ("app_version_from", "1.11", viewer(), False),
        ("app_version_below", "1.11", viewer(), True),
        ("app_version_below", "1.10", viewer(), False),
        # Of a version that is not known nothing holds.
        ("app_version_from", "0", viewer(version=None), False),
        ("app_version_below", "99", viewer(version=None), False),
        ("app_version_below", "99", viewer(version="nightly"), False),
        ("attribute", "plan=gold", viewer(), True),
        ("attribute", "plan = silver, gold", viewer(), True),
        ("attribute", "plan=Gold", viewer(), False),
        ("attribute", "plan=gold", viewer(plan=None), False),
        ("attribute", "other=gold", viewer(), False),
        ("entitlement", "pro", viewer(entitlements=("pro",)), True),
        ("entitlement", "pro", viewer(), False),
        ("no_entitlement", "pro", viewer(), True),
        ("no_entitlement", "pro", viewer(entitlements=("pro",)), False),
        ("first_seen_after", "7d", viewer(), True),
        ("first_seen_after", "2d", viewer(), False),
        ("first_seen_before", "2d", viewer(), True),
        ("status", "never_bought", viewer(), True),
        ("status", "active,trial", viewer(), False),
    ],
)
def test_a_condition_holds_or_does_not(name: str, text: str, who: Viewer, holds: bool) -> None:
    audience = audience_of(rule_with({name: text}))
    assert unmet(audience, who) == ([] if holds else [name])
    assert [named for _, named in conditions(audience)] == [name], "and it has words"


def test_all_conditions_must_hold_and_none_is_everybody() -> None:
    assert first_match([rule(country="DE", platform="ios")], viewer()) is not None
    assert first_match([rule(country="DE", platform="android")], viewer()) is None
    assert unmet(audience_of(rule(country="US", platform="android")), viewer()) == ["country", "platform"]
    assert first_match([rule()], viewer(platform=None, version=None, country=None, plan=None)) is not None


def test_the_first_rule_that_matches_and_is_switched_on_counts() -> None:
    rules = [rule("a", country="US"), rule("b", is_active=False), rule("c", country="DE"), rule("d")]
    found = [first_match(rules, who) for who in (viewer(), viewer(country="US"), viewer(country="FR"))]
    assert [one.id if one is not None else None for one in found] == ["c", "a", "d"]
    assert first_match(rules[:3], viewer(country="FR")) is None


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({"colour": "red"}, "conditions"),
        # Whoever asks is there now.
        ({"last_seen_after": "3d"}, "conditions"),
        ({"country": " "}, "country"),
        ({"country": ","}, "country"),
        ({"country": "Germany"}, "country"),
        ({"platform": "i os"}, "platform"),
        ({"app_version_from": "newest"}, "app_version_from"),
        ({"app_version_below": "1..2"}, "app_version_below"),
        ({"attribute": "plan"}, "attribute"),
        ({"attribute": "=gold"}, "attribute"),
        ({"attribute": "plan= , "}, "attribute"),
        ({"attribute": "pl/an=gold"}, "attribute"),
        ({"entitlement": "x" * 201}, "entitlement"),
        ({"first_seen_after": "soon"}, "first_seen_after"),
        ({"trial_ends_within": "0000019999999"}, "trial_ends_within"),
        ({"product_active": "true"}, "product_active"),
    ],
)
def test_what_cannot_be_understood_is_refused_and_named(wanted: dict[str, str], param: str) -> None:
    with pytest.raises(Invalid) as refused:
        checked_conditions(wanted)
    assert refused.value.param == param


@given(
    st.dictionaries(st.sampled_from(AUDIENCE_NAMES), st.text(max_size=30) | st.sampled_from(("DE,at", "3", "a=b,c")))
)
def test_whatever_is_accepted_is_written_in_one_spelling_and_never_for_more_customers(wanted: dict[str, str]) -> None:
    try:
        spelled = checked_conditions(wanted)
    except Invalid:
        return
    assert checked_conditions(spelled) == spelled
    assert spelled.keys() >= wanted.keys() - {"product_active"}
    assert in_words(audience_of(rule_with(spelled)))
