"""Each preset sends what the service's own client sends for the same event: to the same address, with the same
authentication, in the same fields. The clients send to a receiver on this machine."""

import gzip
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import onesignal
import posthog.client
import posthog.request
import pytest
import segment.analytics.client
import segment.analytics.request
from amplitude import Amplitude, BaseEvent, Config
from amplitude.constants import HTTP_V2, SERVER_URL
from customerio import CustomerIO, Regions
from mixpanel import Consumer, Mixpanel
from msgspec import json
from onesignal.api.default_api import DefaultApi
from onesignal.model.properties_object import PropertiesObject
from onesignal.model.user import User
from slack_sdk.models.blocks import MarkdownTextObject, SectionBlock
from slack_sdk.webhook import WebhookClient

from latchkey.subjects.webhooks.delivery.destination import Outgoing, compiled
from latchkey.subjects.webhooks.usecases.samples import TYPES
from tests.subjects.webhooks.test_destinations import SECRET, SETTINGS, sent, stored


class SentRequest(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class ProviderReceiver(NamedTuple):
    url: str
    requests: list[SentRequest]

    @property
    def only(self) -> SentRequest:
        [request] = self.requests
        return request


@pytest.fixture
def receiver() -> Iterator[ProviderReceiver]:
    requests: list[SentRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            requests.append(SentRequest(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            reply = b'{"code": 200, "status": 1, "success": true, "identity": {}}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield ProviderReceiver(f"http://127.0.0.1:{server.server_port}", requests)
        server.shutdown()
        thread.join()


def host_of(preset: str, **settings: str) -> str:
    return urlsplit(compiled(stored(preset, **settings)).url).hostname or ""


def authorization(outgoing: Outgoing) -> str:
    return dict(outgoing.headers or ())["Authorization"]


def same(ours: Any, theirs: Any) -> None:
    """Every field of ours is in theirs, with the same value."""
    assert {name: theirs.get(name) for name in ours} == ours


def at(iso: str) -> datetime:
    return datetime.fromisoformat(iso)


ALL = pytest.mark.parametrize("type", TYPES)


@ALL
def test_amplitude(type: str, receiver: ProviderReceiver) -> None:
    ours = json.decode(sent("amplitude", type, {"$amplitudeDeviceId": "device"}).body)
    [event] = ours["events"]
    renamed = {"productId": "product_id", "revenueType": "revenue_type"}
    client = Amplitude(SECRET, Config(server_url=receiver.url + "/2/httpapi", min_id_length=1, flush_queue_size=1))
    # A field of another name or type is dropped by the client, with a warning.
    client.track(BaseEvent(**{renamed.get(name, name): value for name, value in event.items()}))
    for future in client.flush():
        future.result()
    client.shutdown()
    theirs = json.decode(receiver.only.body)
    same(event, theirs["events"][0])
    same({"api_key": SECRET, "options": ours["options"]}, theirs)
    for zone in ("us", "eu"):
        assert compiled(stored("amplitude", region=zone)).url == SERVER_URL[zone.upper()][HTTP_V2]


@ALL
def test_customerio(type: str, receiver: ProviderReceiver) -> None:
    name = "Ada / Lovelace & co?"
    outgoing = sent("customerio", type, {"$customerioId": name})
    ours = json.decode(outgoing.body)
    with CustomerIO("site1", SECRET) as client:
        assert outgoing.url == client.get_event_query_string(name)
        client.base_url = receiver.url + "/api/v1"
        client.track(name, ours["name"], ours["data"], id=ours["id"], timestamp=ours["timestamp"])
    assert json.decode(receiver.only.body) == ours
    assert receiver.only.headers["authorization"] == authorization(outgoing)
    for region in (Regions.US, Regions.EU):
        assert host_of("customerio", region=region.name) == region.track_host
    # What the service accepts as an id is a ULID.
    assert len(ours["id"]) == 26
    assert set(ours["id"]) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
    assert ours["id"][0] <= "7"


@ALL
def test_mixpanel(type: str, receiver: ProviderReceiver) -> None:
    outgoing = sent("mixpanel", type, {"$mixpanelDistinctId": "theirs"})
    [ours] = json.decode(outgoing.body)
    properties = ours["properties"]
    client = Mixpanel("token", Consumer(import_url=receiver.url + "/import"))
    distinct_id, time = properties["distinct_id"], properties["time"]
    client.import_data(None, distinct_id, ours["event"], time, properties, api_secret="secret")
    theirs = json.decode(parse_qs(receiver.only.body.decode())["data"][0])
    same(properties, theirs["properties"])
    assert theirs["event"] == ours["event"]
    assert outgoing.url.startswith(Consumer()._endpoints["imports"] + "?strict=1&project_id=1")
    assert authorization(outgoing).startswith("Basic ")
    # The service takes at most 36 letters, digits and hyphens.
    assert len(properties["$insert_id"]) <= 36
    assert properties["$insert_id"].replace("-", "").isalnum()
    assert len(properties) <= 255


@ALL
def test_onesignal(type: str, receiver: ProviderReceiver) -> None:
    for attributes in ({}, {"$onesignalUserId": "f2a6f1e2-5d23-4a0b-9f3a-2f6d8b7a1c11"}):
        outgoing = sent("onesignal", type, attributes)
        ours = json.decode(outgoing.body)
        receiver.requests.clear()
        configuration = onesignal.Configuration(host=receiver.url, rest_api_key=SECRET)
        with onesignal.ApiClient(configuration) as client:
            # The models check the types of tags and of aliases.
            tags = PropertiesObject(tags=ours["properties"]["tags"])
            user = User(identity=ours["identity"], properties=tags)
            DefaultApi(client).create_user(SETTINGS["onesignal"]["app_id"], user, _check_return_type=False)
        assert json.decode(receiver.only.body) == ours
        assert receiver.only.headers["authorization"] == authorization(outgoing)
        assert outgoing.url == onesignal.Configuration().host + receiver.only.path
        assert all(isinstance(value, str) for value in ours["properties"]["tags"].values())


@ALL
def test_posthog(type: str, receiver: ProviderReceiver) -> None:
    ours = json.decode(sent("posthog", type, {"$posthogUserId": "theirs"}).body)
    client = posthog.client.Client(ours["api_key"], host=receiver.url, sync_mode=True, enable_local_evaluation=False)
    client.capture(
        ours["event"],
        distinct_id=ours["distinct_id"],
        properties=ours["properties"],
        timestamp=at(ours["timestamp"]),
        uuid=ours["uuid"],
    )
    client.shutdown()
    theirs = json.decode(receiver.only.body)
    assert theirs["api_key"] == ours.pop("api_key")
    [event] = theirs["batch"]
    assert at(event.pop("timestamp")) == at(ours.pop("timestamp"))
    # The client is told here who it is; without that, it names itself.
    same(ours.pop("properties") | {"$lib": event["properties"]["$lib"]}, event["properties"])
    same(ours, event)
    assert f"https://{host_of('posthog')}" == posthog.request.US_INGESTION_ENDPOINT
    posthog.request.reset_sessions()


@ALL
def test_segment(type: str, receiver: ProviderReceiver) -> None:
    outgoing = sent("segment", type, {"$segmentId": "theirs"})
    ours = json.decode(outgoing.body)
    client = segment.analytics.client.Client(SECRET, host=receiver.url, sync_mode=True)
    client.track(
        ours["userId"],
        ours["event"],
        ours["properties"],
        context=ours["context"],
        timestamp=at(ours["timestamp"]),
        message_id=ours["messageId"],
    )
    [theirs] = json.decode(receiver.only.body)["batch"]
    assert at(theirs.pop("timestamp")) == at(ours.pop("timestamp"))
    assert theirs["context"].keys() == ours.pop("context").keys()
    same(ours, theirs)
    assert receiver.only.headers["authorization"] == authorization(outgoing)
    # An event alone goes to the address of its kind, several to /v1/batch.
    assert urlsplit(outgoing.url).path == f"/v1/{theirs['type']}"
    segment.analytics.request._session.close()


@ALL
def test_slack(type: str, receiver: ProviderReceiver) -> None:
    ours = json.decode(sent("slack", type).body)
    [block] = ours["blocks"]
    made = SectionBlock(text=MarkdownTextObject(text=block["text"]["text"]))
    made.validate_json()
    assert WebhookClient(receiver.url).send(text=ours["text"], blocks=[made]).status_code == 200
    assert json.decode(receiver.only.body) == ours
