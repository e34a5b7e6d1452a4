"""Exports in buckets, against a server that speaks the S3 protocol on this machine."""

from __future__ import annotations

import http.server
import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest
from moto.server import ThreadedMotoServer
from msgspec import json
from obstore.store import S3Store

from latchkey.domain.refusal import Invalid
from latchkey.subjects.exports.usecases.destinations import (
    Bucket,
    BucketAddress,
    DestinationRefused,
    Keys,
    parse_address,
)
from latchkey.subjects.exports.usecases.schedules import last_cursor
from latchkey.subjects.exports.usecases.writer import WHAT, ExportOrder, run
from latchkey.subjects.exports.wire import Manifest
from tests.engine.fixtures import Core

if TYPE_CHECKING:
    from obstore.store import S3Config

KEYS = Keys("AKIAEXAMPLE", "the/secret+key")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        running.stop()


@pytest.fixture
def endpoint(server: str) -> str:
    """With an empty bucket `exports`."""
    urlopen(Request(f"{server}/moto-api/reset", method="POST")).close()
    urlopen(Request(f"{server}/exports", method="PUT")).close()
    return server


def looking_into(endpoint: str) -> S3Store:
    config: S3Config = {"endpoint": endpoint, "region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}
    return S3Store("exports", config=config, client_options={"allow_http": True})


async def fetched(endpoint: str, path: str) -> bytes:
    return bytes(await (await looking_into(endpoint).get_async(path)).bytes_async())


@pytest.mark.one_server("every export is a whole one there")
async def test_an_export_in_a_bucket_and_its_continuation(core: Core, endpoint: str) -> None:
    bucket = Bucket(parse_address("s3://exports/nightly/run", endpoint), KEYS)
    order = ExportOrder(core.project_id, WHAT, "jsonl")
    assert await last_cursor(bucket, order) is None
    await core.act("purchase", user="ann", product="pro_monthly")
    first = await run(core.database, order, bucket, lambda: core.time)
    place = f"nightly/run/{core.project_id}/{first.id}"
    assert json.decode(await fetched(endpoint, f"{place}/manifest.json"), type=Manifest) == first
    for one in first.files:
        assert len(await fetched(endpoint, f"{place}/{one.name}")) == one.bytes

    core.time += 1
    cursor = await last_cursor(bucket, order)
    assert cursor is not None
    assert cursor.text() == first.cursor
    await core.act("purchase", user="bob", product="pro_monthly")
    second = await run(core.database, ExportOrder(core.project_id, WHAT, "jsonl", cursor), bucket, lambda: core.time)
    assert second.kind == "increment"
    found = await last_cursor(bucket, order)
    assert found is not None
    assert found.text() == second.cursor
    # Another format, or more kinds of rows than those exports had: nothing to continue.
    assert await last_cursor(bucket, ExportOrder(core.project_id, WHAT, "csv")) is None


async def test_files_without_a_manifest_are_no_export(core: Core, endpoint: str) -> None:
    bucket = Bucket(parse_address("s3://exports", endpoint), KEYS)
    place = f"{core.project_id}/20990101T000000000Z-abcdef/events-00001.jsonl"
    await looking_into(endpoint).put_async(place, b"{}")
    assert await last_cursor(bucket, ExportOrder(core.project_id, WHAT, "jsonl")) is None


async def test_a_file_larger_than_one_request(endpoint: str) -> None:
    bucket = Bucket(parse_address("s3://exports", endpoint), KEYS)
    content = bytes(range(256)) * 50_000
    async with bucket.upload("p/x") as upload:
        (upload.workspace / "events-00001.csv").write_bytes(content)
        await upload.put("events-00001.csv")
        workspace = upload.workspace
        assert not (workspace / "events-00001.csv").exists()
    assert not workspace.exists()
    assert await fetched(endpoint, "p/x/events-00001.csv") == content


async def test_a_missing_bucket_is_named(core: Core, endpoint: str) -> None:
    bucket = Bucket(parse_address("s3://elsewhere/x", endpoint), KEYS)
    with pytest.raises(DestinationRefused, match=r"s3://elsewhere/x at .* there is no such bucket") as refused:
        await run(core.database, ExportOrder(core.project_id, ("events",), "csv"), bucket, lambda: core.time)
    assert KEYS.secret_access_key not in str(refused.value)


class Refusing(http.server.BaseHTTPRequestHandler):
    """A server that refuses every request, as a wrong key is refused."""

    code = "SignatureDoesNotMatch"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = (
            f"<Error><Code>{self.code}</Code><Message>no</Message>"
            f"<AWSAccessKeyId>{KEYS.access_key_id}</AWSAccessKeyId></Error>"
        ).encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("SignatureDoesNotMatch", "the secret access key is wrong"),
        ("InvalidAccessKeyId", "the access key is not known there"),
        ("AccessDenied", "the access key may not do this"),
        ("SomethingNew", "the service answered SomethingNew"),
    ],
)
async def test_a_wrong_key_is_told_in_plain_words_and_never_shown(code: str, words: str) -> None:
    answering = type("Answering", (Refusing,), {"code": code})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), answering) as refusing:
        thread = threading.Thread(target=refusing.serve_forever, daemon=True)
        thread.start()
        bucket = Bucket(parse_address("s3://exports", f"http://127.0.0.1:{refusing.server_port}"), KEYS)
        async with bucket.upload("p/x") as upload:
            with pytest.raises(DestinationRefused, match=words) as refused:
                await upload.finish(b"{}")
        refusing.shutdown()
        thread.join()
    told = str(refused.value) + repr(KEYS) + repr(bucket.__dict__)
    assert KEYS.secret_access_key not in told
    assert KEYS.access_key_id not in str(refused.value)


async def test_a_service_that_does_not_answer_is_told() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as closed:
        port = closed.server_port
    bucket = Bucket(parse_address("s3://exports", f"http://127.0.0.1:{port}"), KEYS)
    with pytest.raises(DestinationRefused, match="cannot be reached"):
        _ = [one async for one in bucket.manifests("p")]


@pytest.mark.parametrize(
    ("text", "endpoint", "expected"),
    [
        ("s3://exports", None, BucketAddress("exports", "")),
        ("s3://exports/a/b/", "https://r2.example.com/", BucketAddress("exports", "a/b", "https://r2.example.com")),
        ("exports", None, None),
        ("s3://", None, None),
        ("s3:///prefix", None, None),
        ("s3://x y/prefix", None, None),
        (f"s3://exports/{'.' * 2}/other", None, None),
        ("s3://exports/a//b", None, None),
        ("s3://exports", "minio.example.com", None),
        ("s3://exports", "ftp://minio.example.com", None),
        ("s3://exports", "https://user:password@minio.example.com", None),
        ("s3://exports", "https://minio.example.com:port", None),
    ],
)
def test_addresses_of_buckets(text: str, endpoint: str | None, expected: BucketAddress | None) -> None:
    if expected is not None:
        assert parse_address(text, endpoint) == expected
    else:
        with pytest.raises(Invalid) as refused:
            parse_address(text, endpoint)
        assert "password@" not in str(refused.value)
