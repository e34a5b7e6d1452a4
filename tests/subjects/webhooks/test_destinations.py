"""Destinations: webhooks that send to another service in its own form."""

import time
from base64 import b64encode
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

import pytest
from msgspec import json

from latchkey.domain.refusal import Refusal
from latchkey.subjects.webhooks.delivery.destination import (
    LONGEST_EXPRESSIONS,
    MOST_EXPRESSIONS,
    DestinationSetup,
    Outgoing,
    compiled,
    line,
    presets,
)
from latchkey.subjects.webhooks.usecases.destination_settings import checked, preview
from latchkey.subjects.webhooks.usecases.samples import TYPES, event_for_test
from tests.http.doings import did
from tests.http.management import patch, refused
from tests.http.receiving import HOOKS, Post

NOW = 1_800_000_000_000
SECRET = "s3cret4711"
# What each preset is given here.
SETTINGS: dict[str, dict[str, str]] = {
    "adjust": {"app_token": "abc123", "event_token": "ev1", "s2s_token": SECRET},
    "amplitude": {"api_key": SECRET},
    "appsflyer": {"app_id": "id123", "token": SECRET},
    "braze": {"endpoint": "rest.iad-01.braze.com", "api_key": SECRET},
    "custom": {"url": "https://example.com/in", "authorization": f"Bearer {SECRET}"},
    "customerio": {"site_id": "site1", "api_key": SECRET},
    "discord": {"webhook_url": f"https://discord.com/api/webhooks/1/{SECRET}"},
    "email": {"to": "sales@example.com"},
    "ga4": {"firebase_app_id": "1:123:ios:abc", "api_secret": SECRET},
    "meta": {"dataset_id": "12345", "access_token": SECRET},
    "mixpanel": {"project_id": "1", "username": "robot.1", "password": SECRET},
    "onesignal": {"app_id": "5c1ff9a0-52b9-4a3a-8d6d-3f1d2b1c0a9e", "api_key": SECRET},
    "posthog": {"api_key": f"phc_{SECRET}"},
    "segment": {"write_key": SECRET},
    "slack": {"webhook_url": f"https://hooks.slack.com/services/T/B/{SECRET}"},
}
TEMPLATE = {"text": "{{ line }}", "id": "{{ event.id }}", "usd": "{{ revenue }}", "none": "{{ event.offer_code }}"}


def stored(preset: str, template: Any = None, **settings: str) -> str:
    template = TEMPLATE if preset == "custom" and template is None else template
    return checked(DestinationSetup(preset=preset, settings=SETTINGS[preset] | settings, template=template))


def sent(preset: str, type: str = "INITIAL_PURCHASE", attributes: dict[str, str] | None = None) -> Outgoing:
    event = json.decode(json.encode(event_for_test(type, NOW, "0b1c6f0e-6c43-5f0e-a1e0-2f4e4b7f4b11")))
    held = (attributes or {}) | {presets()[preset].requires or "$none": "given"}
    event["subscriber_attributes"] = {name: {"value": value, "updated_at_ms": 0} for name, value in held.items()}
    outgoing = compiled(stored(preset)).outgoing(json.encode(event), "https://shop.example.com/dashboard/projects/p")
    assert outgoing is not None
    return outgoing


def body(preset: str, type: str = "INITIAL_PURCHASE", attributes: dict[str, str] | None = None) -> Any:
    return json.decode(sent(preset, type, attributes).body)


def test_every_preset_is_tried_here() -> None:
    assert set(SETTINGS) == set(presets())


@pytest.mark.parametrize("preset", SETTINGS)
def test_a_preview_shows_every_type_and_no_secret(preset: str) -> None:
    shown = preview(stored(preset), NOW)
    assert [one.type for one in shown] == list(TYPES)
    for one in shown:
        text = f"{one.url} {one.headers} {bytes(one.body).decode()}"
        assert SECRET not in text
        assert b64encode(SECRET.encode()).decode().rstrip("=")[:10] not in text
    assert SECRET not in compiled(stored(preset)).shown_url


@pytest.mark.parametrize("secret", ["0", "1", "9", "null", "e"])
def test_a_preview_is_json_whatever_the_secret(secret: str) -> None:
    """A number in which a short secret occurs stays one."""
    setup = DestinationSetup(preset="segment", settings=SETTINGS["segment"] | {"write_key": secret})
    for one in preview(checked(setup), NOW):
        price = json.decode(one.body)["properties"].get("revenue")
        assert price is None or isinstance(price, float)


@pytest.mark.parametrize("type", TYPES)
def test_slack_and_discord_get_a_line_and_a_link(type: str) -> None:
    link = "https://shop.example.com/dashboard/projects/p/customers/sample_user"
    event = json.decode(json.encode(event_for_test(type, NOW, "1")))
    assert line(event).startswith("sample_user ")
    assert body("slack", type)["text"] == line(event)
    assert link in body("slack", type)["blocks"][0]["text"]["text"]
    assert body("discord", type)["content"] == f"{line(event)}\n<{link}>"


def test_a_name_cannot_mention_a_channel() -> None:
    event = json.decode(json.encode(event_for_test("RENEWAL", NOW, "1")))
    event["app_user_id"] = "<!channel> & @everyone"
    made = {preset: compiled(stored(preset)).outgoing(json.encode(event)) for preset in ("slack", "discord")}
    slack, discord = made["slack"], made["discord"]
    assert slack is not None
    assert discord is not None
    assert json.decode(slack.body)["text"].startswith("&lt;!channel&gt; &amp; @everyone renewed")
    assert json.decode(discord.body)["allowed_mentions"] == {"parse": []}


@pytest.mark.parametrize(
    ("preset", "attribute", "where"),
    [
        ("amplitude", "$amplitudeUserId", lambda body: body["events"][0]["user_id"]),
        ("mixpanel", "$mixpanelDistinctId", lambda body: body[0]["properties"]["distinct_id"]),
        ("posthog", "$posthogUserId", lambda body: body["distinct_id"]),
        ("onesignal", "$onesignalUserId", lambda body: min(body["identity"].values())),
    ],
)
def test_a_reserved_attribute_names_the_user(preset: str, attribute: str, where: Any) -> None:
    assert where(body(preset)) == "sample_user"
    assert where(body(preset, attributes={attribute: "theirs"})) == "theirs"


def test_a_user_of_braze_has_an_alias_if_name_and_label_are_known() -> None:
    alias = {"alias_name": "ada", "alias_label": "app"}
    made = body("braze", attributes={"$brazeAliasName": "ada", "$brazeAliasLabel": "app"})
    for sent in (made["events"][0], made["purchases"][0]):
        assert (sent["user_alias"], sent.get("external_id")) == (alias, None)
    assert body("braze", attributes={"$brazeAliasName": "ada"})["events"][0]["external_id"] == "sample_user"


@pytest.mark.parametrize(("preset", "attribute"), [("appsflyer", "$appsflyerId"), ("adjust", "$adjustId")])
def test_an_event_of_an_unknown_customer_is_not_sent(preset: str, attribute: str) -> None:
    assert presets()[preset].requires == attribute
    event = json.encode(event_for_test("RENEWAL", NOW, "1"))
    assert compiled(stored(preset)).outgoing(event) is None


def test_money_is_in_dollars_negative_for_refunds_and_absent_where_none_moved() -> None:
    for type, revenue in (("INITIAL_PURCHASE", 9.99), ("REFUND", -9.99), ("CANCELLATION", None)):
        assert body("amplitude", type)["events"][0].get("revenue") == revenue
        assert body("mixpanel", type)[0]["properties"].get("revenue") == revenue
    form = dict(parse_qsl(sent("adjust").body.decode()))
    assert (form["revenue"], form["currency"], form["s2s"]) == ("9.99", "USD", "1")
    assert json.decode(body("appsflyer")["eventValue"])["af_revenue"] == 9.99
    assert body("ga4", "REFUND")["events"][0]["params"]["value"] == 9.99
    # These two count no negative amounts.
    assert "revenue" not in dict(parse_qsl(sent("adjust", "REFUND").body.decode()))
    assert (
        body("meta", "REFUND")["data"][0]["custom_data"] | {"value": 0, "refunded": 9.99}
        == (body("meta", "REFUND")["data"][0]["custom_data"])
    )


def test_a_template_keeps_types_and_leaves_out_nulls() -> None:
    template = {"n": "{{ revenue }}", "deep": [{"x": "{{ event.price * 2 }}", "y": "{{ event.offer_code }}"}], "t": "a"}
    outgoing = compiled(stored("custom", template)).outgoing(json.encode(event_for_test("RENEWAL", NOW, "1")))
    assert outgoing is not None
    assert json.decode(outgoing.body) == {"n": 9.99, "deep": [{"x": 19.98}], "t": "a"}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ event.nonsense }}", "An event has no field 'nonsense'"),
        ("{{ evnt.id }}", "There is no 'evnt'"),
        ("{{ event.id", "not closed"),
        ("{{ event. }}", "expected name"),
        ("{{ event.id | nofilter }}", "nofilter"),
        ("{{ 'x' * 1000000000 }}", "* works with numbers only"),
        ("{{ 9 ** 999999999 }}", "** is not allowed"),
        ("{{ 1e400 }}", "A number is larger than 1.8e308."),
        ("{{ event.price + -1e400 }}", "A number is larger than 1.8e308."),
        ("{{ event.id.upper() }}", "Nothing can be called"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ range(1000000000) }}", "Nothing can be called"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ " + "(" * 1000 + "1" + ")" * 1000 + " }}", "nested too deeply"),
        ("{{ '{0.__class__}'.format(1) }}", "Nothing can be called"),
        ("{{ event.id.format }}", "has to be a text"),
        ("{{ self }}", "There is no 'self'"),
        ("{{ work }}", "There is no 'work'"),
        ("{{ 'a' | truncate(1) }}", "The template fails: expected length >= 3"),
        ("{{ '1e400' | float | int }}", "The template fails: cannot convert float infinity"),
        ("{{ settings.authorization | base64 }}", "secrets are only in headers"),
        ("{{ settings['authorization'] }}", "secrets are only in headers"),
        ("{{" * 8000, "not closed"),
        (["{{ 1 }}"] * 101, "more than 100 expressions"),
        ("{{ '" + "a" * 2048 + "' }}", "or 2,048 characters"),
        ("{{ 'aaaaaaaaaa'" + " | replace('a', 'aaaaaaaaaa')" * 30 + " }}", "more than 65,536 characters"),
        ("{{ 'aaaaaaaaaa'" + " | join('aaaaaaaaaa')" * 30 + " }}", "more than 65,536 characters"),
        ("{{ '\"'" + " | tojson" * 60 + " }}", "more than 65,536 characters"),
        ("{{ 'a'" + " | base64" * 60 + " }}", "more than 65,536 characters"),
        ("{{ " + "event~" * 300 + "1 }}", "more than 262,144 bytes"),
    ],
)
def test_a_bad_template_is_refused_when_it_is_saved(template: Any, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        stored("custom", {"x": template})
    assert words in refusal.value.message
    assert refusal.value.param == "destination.template"


def test_numbers_that_json_does_not_have_are_left_out() -> None:
    template = {"a": "{{ 'nan' | float }}", "b": "{{ 1e308 * 10 }}", "c": 1, "d": "{{ 1e308 + 1e308 }}"}
    assert json.decode(preview(stored("custom", template), NOW)[0].body) == {"c": 1}


# What expressions cost most, as often as fits into a template.
COSTLY = [
    "event|tojson|replace('e',line)|join('')|length",
    "(line|replace('a',line)|replace('e',line))|replace('s',line)|length",
    "event~event~event~event~event",
    "line|ulid",
    "event|tojson|path|length",
    "line|replace('',line)|path|title|digits",
    "event==event",
    "-1",
    "1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1",
]


@pytest.mark.parametrize("expression", COSTLY)
def test_no_template_takes_long(expression: str) -> None:
    many = min(MOST_EXPRESSIONS, LONGEST_EXPRESSIONS // len(expression))
    began = time.process_time()
    with suppress(Refusal):
        stored("custom", ["{{" + expression + "}}"] * many)
    # Measured: 0.05 to 0.2 s, most of it to compile the expressions.
    assert time.process_time() - began < 0.5
    began = time.process_time()
    with pytest.raises(Refusal):
        stored("custom", ["{{" + expression + "}}"] * (16_000 // (len(expression) + 7)))
    assert time.process_time() - began < 0.1


def test_a_template_has_the_settings_that_are_no_secrets() -> None:
    assert json.decode(preview(stored("custom", "{{ settings }}"), NOW)[0].body) == {"url": SETTINGS["custom"]["url"]}


def test_rounding_takes_no_time_and_no_memory() -> None:
    template = {"x": "{{ 1.26 | round(1) }}", "y": "{{ 5 | round(-999999999) }}"}
    assert json.decode(preview(stored("custom", template), NOW)[0].body) == {"x": 1.3, "y": 5.0}


def test_a_secret_is_masked_as_an_address_and_a_header_write_it() -> None:
    awkward = 'a+b/c="d&e'
    made = compiled(checked(DestinationSetup(preset="ga4", settings=SETTINGS["ga4"] | {"api_secret": awkward})))
    assert made.shown_url.endswith("&api_secret=••••")
    basic = compiled(stored("customerio"))
    echoed = b64encode(f"site1:{SECRET}".encode()).decode()
    assert echoed in basic.secrets


@pytest.mark.parametrize(
    ("preset", "settings", "param"),
    [
        ("slack", {"webhook_url": "https://evil.example.com/hook"}, "destination.settings.webhook_url"),
        ("slack", {}, "destination.settings.webhook_url"),
        ("slack", {"webhook_url": "https://hooks.slack.com/x", "more": "x"}, "destination.settings"),
        ("braze", {"endpoint": "evil.example.com/", "api_key": "x"}, "destination.settings.endpoint"),
        ("segment", {"write_key": "a b\r\nX: y"}, "destination.settings.write_key"),
        ("nowhere", {}, "destination.preset"),
    ],
)
def test_wrong_settings_are_refused_without_repeating_them(preset: str, settings: dict[str, str], param: str) -> None:
    with pytest.raises(Refusal) as refusal:
        checked(DestinationSetup(preset=preset, settings=settings))
    assert refusal.value.param == param
    assert not any(value in refusal.value.message for value in settings.values() if len(value) > 4)


async def new(post: Post, preset: str, template: Any = None, **settings: str) -> dict[str, Any]:
    destination = {"preset": preset, "settings": settings, **({"template": template} if template else {})}
    reply = await post.call("POST", "", {"name": "Theirs", "destination": destination})
    assert reply.status == 201, reply
    made: dict[str, Any] = reply.json()
    return made


async def test_a_purchase_arrives_in_the_form_of_the_template(sending: Post) -> None:
    template = {"user": "{{ event.app_user_id }}", "usd": "{{ revenue }}"}
    url = sending.address + "/status/204"
    id = (await new(sending, "custom", template, url=url, authorization=f"Bearer {SECRET}"))["id"]
    await did(sending, "purchase", "ada", "pro_monthly")
    [delivered] = await sending.settled(id, "delivered")
    [arrival] = sending.arrivals
    assert json.decode(arrival.body) == {"user": "ada", "usd": 9.99}
    assert arrival.headers["authorization"] == f"Bearer {SECRET}"
    assert "webhook-signature" not in arrival.headers
    shown = await sending.shown(f"{id}/deliveries/{delivered['id']}")
    assert shown["request_body"] == {"user": "ada", "usd": 9.99}
    assert (shown["response_status"], shown["attempts"][0]["request_headers"]["Authorization"]) == (204, "Bearer ••••")
    assert SECRET not in str(shown)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("1 / (3 - (event.app_user_id | length))", "division by zero"),
        ("line | truncate((event.app_user_id | length) - 3)", "expected length >= 3, got 0"),
        ("'1e400' | float | int if event.app_user_id == 'ada' else 1", "cannot convert float infinity to integer"),
    ],
)
async def test_a_template_that_fails_for_one_event_is_an_attempt_that_failed(
    sending: Post, expression: str, why: str
) -> None:
    # The ids of the samples are longer.
    template = {"x": "{{ " + expression + " }}"}
    id = (await new(sending, "custom", template, url=sending.address + "/"))["id"]
    await did(sending, "purchase", "ada", "pro_monthly")
    [waiting] = await sending.settled(id, "waiting", attempts=1)
    assert waiting["error"] == f"The template fails: {why}"
    assert (await sending.shown(f"{id}/deliveries/{waiting['id']}"))["request_body"] is None
    assert sending.arrivals == []


async def test_an_event_that_is_not_sent_counts_as_delivered_and_the_log_says_why(sending: Post) -> None:
    id = (await new(sending, "appsflyer", **SETTINGS["appsflyer"]))["id"]
    await did(sending, "purchase", "ada", "pro_monthly")
    [delivered] = await sending.settled(id, "delivered")
    shown = await sending.shown(f"{id}/deliveries/{delivered['id']}")
    assert shown["attempts"][0]["response_body"] == "Not sent: the customer has no attribute $appsflyerId."
    assert (shown["response_status"], shown["error"]) == (None, None)


async def test_a_destination_is_shown_without_secrets_and_keeps_them_when_it_is_changed(post: Post) -> None:
    made = await new(post, "amplitude", api_key=SECRET)
    assert made["destination"] == {"preset": "amplitude", "settings": {"api_key": "••••"}, "template": None}
    assert (made["url"], made["dialect"]) == ("https://api2.amplitude.com/2/httpapi", "latchkey")
    changes = {"destination": {"preset": "amplitude", "settings": {"region": "eu"}}}
    changed = (await patch(post, f"{HOOKS}/{made['id']}", changes)).json()
    assert changed["url"] == "https://api.eu.amplitude.com/2/httpapi"
    assert changed["destination"]["settings"] == {"api_key": "••••", "region": "eu"}
    kept = await post.database.pool.fetchval("select destination_sealed from webhooks where id = $1", made["id"])
    assert SECRET.encode() not in kept
    audited = await post.database.pool.fetch("select * from audit_entries")
    assert SECRET not in str(audited)


@pytest.mark.parametrize(
    ("preset", "body", "secret", "settings", "moved"),
    [
        ("posthog", None, {"api_key": "phc_a"}, {"host": "eu.i.posthog.com"}, {"host": "posthog.example.com"}),
        (
            "custom",
            {"a": 1},
            {"authorization": f"Bearer {SECRET}"},
            {"url": "https://example.com/in"},
            {"url": "https://elsewhere.example.com/in"},
        ),
    ],
)
async def test_another_host_gets_a_secret_of_a_destination_only_if_it_is_given_again(
    post: Post, preset: str, body: Any, secret: dict[str, str], settings: dict[str, str], moved: dict[str, str]
) -> None:
    made = await new(post, preset, body, **secret, **settings)
    path = f"{HOOKS}/{made['id']}"
    reply = await patch(post, path, {"destination": {"preset": preset, "settings": moved}})
    refused(reply, 422, "unprocessable_entity_error", f"destination.settings.{next(iter(secret))}")
    assert (await post.shown(made["id"]))["url"] == made["url"]
    assert (await patch(post, path, {"destination": {"preset": preset, "settings": moved | secret}})).status == 200


async def test_what_does_not_fit_together_is_refused(post: Post) -> None:
    slack = {"preset": "slack", "settings": SETTINGS["slack"]}
    inside = {"preset": "posthog", "settings": {"host": "10.0.0.1", "api_key": "phc_a"}}
    for value, status, param in (
        ({}, 400, "url"),
        ({"url": "https://example.com/", "destination": slack}, 400, "url"),
        ({"destination": inside}, 400, "url"),
        ({"destination": slack, "dialect": "revenuecat"}, 422, "dialect"),
        ({"destination": {**slack, "template": {"a": 1}}}, 422, "destination.template"),
        ({"destination": {"preset": "custom", "settings": SETTINGS["custom"]}}, 422, "destination.template"),
    ):
        kind = "parameter_error" if status == 400 else "unprocessable_entity_error"
        refused(await post.call("POST", "", {"name": "x", **value}), status, kind, param)
    made = await new(post, "slack", **SETTINGS["slack"])
    discord = {"preset": "discord", "settings": SETTINGS["discord"]}
    plain = await post.hook()
    for id, changes, param in (
        (made["id"], {"url": "https://example.com/"}, "url"),
        (made["id"], {"destination": discord}, "destination.preset"),
        (plain["id"], {"destination": slack}, "destination"),
    ):
        refused(await patch(post, f"{HOOKS}/{id}", changes), 422, "unprocessable_entity_error", param)


async def test_the_api_lists_presets_and_previews_one(post: Post) -> None:
    below = f"/v2/projects/{post.project_id}/integrations/destinations"
    listed = (await post.client.get(below)).json()["items"]
    assert [one["id"] for one in listed] == list(presets())
    slack = next(one for one in listed if one["id"] == "slack")
    assert slack["settings"][0]["secret"]
    reply = await post.client.post(f"{below}/preview", {"preset": "slack", "settings": SETTINGS["slack"]})
    assert [one["type"] for one in reply.json()["items"]] == list(TYPES)
    assert SECRET not in str(reply.json())
    own = {"preset": "custom", "settings": SETTINGS["custom"], "template": {"v": "{{ 'a' | truncate(1) }}"}}
    reply = await post.client.post(f"{below}/preview", own)
    refused(reply, 422, "unprocessable_entity_error", "destination.template")
