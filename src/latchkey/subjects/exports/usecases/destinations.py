"""Where exports go. An export is a folder of files with a `manifest.json`, which is written last.

A reader takes only folders with a manifest. In a file system the whole folder appears at once, under its final name.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from latchkey.domain.refusal import Invalid, Refusal

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential, S3Store


MANIFEST = "manifest.json"
_PARTIAL = ".partial-"
# What is read alike by everybody: other characters end the host for some, and not for others.
_ENDPOINT = re.compile(r"""[!#-;=?-\[\]_a-z~]+""")


class DestinationRefused(Refusal):
    """The destination cannot be written to or read. The message says why, in words for people, and no secret."""


class Upload(Struct, frozen=True):
    # Files are written here first.
    workspace: Path
    # The file of the workspace with this name is complete.
    put: Callable[[str], Awaitable[None]]
    # All files are there, and this is their manifest. Only now the export exists.
    finish: Callable[[bytes], Awaitable[None]]


class Destination(Protocol):
    # For people; without secrets.
    shown: str

    def upload(self, folder: str) -> AbstractAsyncContextManager[Upload]:
        """Begin an export in this folder (`project/name`)."""

    def manifests(self, parent: str) -> AsyncIterator[bytes]:
        """The manifests of the exports in this folder, the last name first."""


class FolderDestination:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.shown = str(root)

    @asynccontextmanager
    async def upload(self, folder: str) -> AsyncIterator[Upload]:
        final = self.root / folder
        partial = final.with_name(_PARTIAL + final.name)
        held = -1

        async def put(name: str) -> None:
            with errors_in_words(self.shown):
                _sync(partial / name)

        async def finish(manifest: bytes) -> None:
            with errors_in_words(self.shown):
                (partial / MANIFEST).write_bytes(manifest)
                _sync(partial / MANIFEST)
                _sync(partial)
                partial.rename(final)
                _sync(final.parent)

        try:
            with errors_in_words(self.shown):
                partial.mkdir(parents=True)
                held = os.open(partial, os.O_RDONLY)
                # Held while the export runs, so that others can tell it from one that was killed.
                fcntl.flock(held, fcntl.LOCK_EX)
                _remove_abandoned(final.parent)
            yield Upload(partial, put, finish)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            if held >= 0:
                os.close(held)

    async def manifests(self, parent: str) -> AsyncIterator[bytes]:
        with errors_in_words(self.shown):
            found = sorted((self.root / parent).glob(f"*/{MANIFEST}"), reverse=True)
        for path in found:
            if not path.parent.name.startswith("."):
                with errors_in_words(self.shown):
                    yield path.read_bytes()


@contextmanager
def errors_in_words(where: str) -> Iterator[None]:
    """Turns the errors of a file system into words for people."""
    try:
        yield
    except OSError as error:
        raise DestinationRefused(_words(error, where)) from error


def _words(error: OSError, where: str) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"There is no room left in {where}. Nothing of this export is kept; make room and run it again."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"{where} cannot be written to: permission denied."
        case errno.ENOTDIR | errno.EEXIST:
            return f"{where} is not a folder."
        case _:
            return f"{where} cannot be used: {error.strerror or type(error).__name__}."


def _remove_abandoned(parent: Path) -> None:
    """Removes what killed exports left behind. Those that still run hold a lock on their folder."""
    for path in parent.glob(f"{_PARTIAL}*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


SCHEME = "s3://"
DEFAULT_REGION = "us-east-1"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.\-_]{1,61}[a-z0-9]", re.IGNORECASE)
_REGION = re.compile(r"[a-z0-9\-]{1,40}", re.IGNORECASE)
_CODE = re.compile(r"<Code>(\w+)</Code>")

_BUCKETS = tomllib.loads((files(__package__) / "buckets.toml").read_text(encoding="utf-8"))
PUBLIC = tuple(_BUCKETS["public"])


@dataclass(frozen=True, slots=True)
class Keys:
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class BucketAddress(Struct, frozen=True):
    bucket: str
    prefix: str
    endpoint: str | None = None
    region: str | None = None

    @property
    def shown(self) -> str:
        path = f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")
        return f"{path} at {self.endpoint}" if self.endpoint else path


def parse_address(text: str, endpoint: str | None = None, region: str | None = None) -> BucketAddress:
    """`s3://bucket/prefix`, and the address of the service if it is not Amazon's."""
    bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or _BUCKET.fullmatch(bucket) is None:
        raise Invalid("A bucket is named as s3://bucket or s3://bucket/prefix.", param="destination")
    if any(part in {"", ".", ".."} for part in prefix.strip("/").split("/")) and prefix.strip("/"):
        raise Invalid("A prefix has no empty parts, '.' or '..'.", param="destination")
    if endpoint:
        _check_endpoint(endpoint)
    # A region becomes part of the host's name.
    if region and _REGION.fullmatch(region) is None:
        raise Invalid("A region is a name such as eu-central-1.", param="region")
    return BucketAddress(bucket, prefix.strip("/"), endpoint.rstrip("/") if endpoint else None, region or None)


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    written = _ENDPOINT.fullmatch(endpoint) is not None and parts.scheme in {"http", "https"}
    if not written or not host or "@" in parts.netloc or parts.query or parts.fragment:
        raise Invalid(
            "An endpoint is the address of the service, such as https://minio.example.com:9000.", param="endpoint"
        )


class Bucket:
    """Speaks the S3 protocol: Amazon S3, MinIO, Cloudflare R2, Google Cloud Storage (interoperability)."""

    def __init__(self, address: BucketAddress, keys: Keys) -> None:
        self.shown = address.shown
        self._store = _open(address, keys)

    @asynccontextmanager
    async def upload(self, folder: str) -> AsyncIterator[Upload]:
        async def put(name: str) -> None:
            path = Path(workspace, name)
            with _answers_in_words(self.shown):
                await self._store.put_async(f"{folder}/{name}", path)
            with errors_in_words(workspace):
                await asyncio.to_thread(path.unlink)

        async def finish(manifest: bytes) -> None:
            with _answers_in_words(self.shown):
                await self._store.put_async(f"{folder}/{MANIFEST}", manifest)

        with tempfile.TemporaryDirectory(prefix="latchkey-export-") as workspace:
            yield Upload(Path(workspace), put, finish)

    async def manifests(self, parent: str) -> AsyncIterator[bytes]:
        with _answers_in_words(self.shown):
            listed = await self._store.list_with_delimiter_async(parent)
            for folder in sorted(listed["common_prefixes"], reverse=True):
                # Without one: not finished, under way or killed.
                with suppress(FileNotFoundError):
                    found = await self._store.get_async(f"{folder}/{MANIFEST}")
                    yield bytes(await found.bytes_async())


def _open(address: BucketAddress, keys: Keys) -> S3Store:
    from obstore.store import S3Store

    def credentials() -> S3Credential:
        return {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "token": keys.session_token,
            "expires_at": None,
        }

    config: S3Config = {"region": address.region or DEFAULT_REGION}
    if address.endpoint:
        config["endpoint"] = address.endpoint
    return S3Store(
        address.bucket,
        prefix=address.prefix or None,
        config=config,
        # Given as a function, so that nothing of the machine's own environment or instance role is used.
        credential_provider=credentials,
        client_options={
            "allow_http": (address.endpoint or "").startswith("http://"),
            "connect_timeout": timedelta(seconds=10),
            "timeout": timedelta(minutes=10),
        },
        retry_config={"max_retries": 4, "retry_timeout": timedelta(minutes=2)},
    )


@contextmanager
def _answers_in_words(shown: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise refused(error, shown) from error


def refused(error: Exception, shown: str) -> DestinationRefused:
    """The library's own text holds addresses, keys and internals: only its error code is used."""
    text = str(error)
    code = _CODE.search(text)
    name = type(error).__name__
    if code is not None:
        words = _BUCKETS["errors"].get(code[1], f"the service answered {code[1]}")
    elif name in {"PermissionDeniedError", "UnauthenticatedError", "PermissionError"}:
        words = "the access key may not do this; it needs to write, read and list objects"
    elif "kind: Connect" in text:
        words = "it cannot be reached"
    elif "kind: Timeout" in text:
        words = "it did not answer in time"
    else:
        words = "the service did not do what it was asked to"
    return DestinationRefused(f"{shown} cannot be used: {words}.")
