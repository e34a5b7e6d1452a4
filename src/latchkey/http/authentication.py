"""API keys on requests: `Authorization: Bearer <key>`.

Keys are compared by their SHA-256 and never written anywhere. `Reader` looks them up. Router modules use these
as the type of the parameter `call`:

    ReadKey, WriteKey                  V2: a secret key of the project in the path; also adds the path to the document
    ChartsKey                          V2: the same, with the scope `charts` or `read`
    SecretReadKey, SecretWriteKey      V1: a secret key
    SecretKey                          a secret key with any scope
    AppReadKey, AppWriteKey            V1: any key; the route decides what a public one may do
    OfferingsKey, AttributesKey        V1: the same, but a public key over its limit gets 503
    ReceiptKey                         V1: the same, but a public key is never rate limited
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, TypeAlias

from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from latchkey.database.pool import Database
from latchkey.database.rows import InProject
from latchkey.domain.access.api_key import KeyRules
from latchkey.domain.instants import Ms
from latchkey.engine.admission import Caller, Limited, Verdict
from latchkey.engine.changes import Changes
from latchkey.engine.reads import CustomerView
from latchkey.engine.storage.keys import Scope
from latchkey.http.errors import ApiError, Forbidden, TooManyRequests, Unauthenticated, Unavailable
from latchkey.http.exchange import SCOPE_KEY, SERVICES_KEY, Exchange
from latchkey.http.services import Services
from latchkey.subjects.accounts.rules import network_of

_LONGEST = 256
_UNKNOWN = "This API key is not known here, or it was revoked."


# A few keys make thousands of requests a second; parsing and hashing the header again would take a twentieth of a read.
# The cache reveals nothing more: the headers are in this process's memory anyway.
@lru_cache(maxsize=256)
def key_hash(authorization: bytes | None) -> bytes:
    """The hash of the key in this header."""
    if authorization is None:
        raise Unauthenticated("Send your API key as 'Authorization: Bearer <key>'.", code=7224)
    key = authorization[7:].strip() if authorization[:7].lower() == b"bearer " else b""
    if not key or b" " in key or len(key) > _LONGEST:
        raise Unauthenticated("The Authorization header must read 'Bearer <key>'.", code=7224)
    return hashlib.sha256(key).digest()


def admitted(verdict: Verdict, exchange: Exchange, services: Services) -> Caller:
    """The caller, if the key is valid, works now and here, and has requests left."""
    if verdict is None:
        raise Unauthenticated(_UNKNOWN)
    if isinstance(verdict, Limited):
        exchange.caller = caller = verdict.caller
        exchange.key_id, exchange.store = caller.key_id, caller.store
        if caller.rules is not None:
            require_rules(caller.rules, caller, exchange, services)
        raise TooManyRequests(verdict.retry_after_ms)
    exchange.caller, exchange.key_id, exchange.store = verdict, verdict.key_id, verdict.store
    if verdict.rules is not None:
        require_rules(verdict.rules, verdict, exchange, services)
    if verdict.rate_used is not None:
        exchange.usage = verdict.rate_used, verdict.rate_limit
    return verdict


def require_rules(rules: KeyRules, caller: Caller, exchange: Exchange, services: Services) -> None:
    """Refuses a key that has expired, or that is used from outside its networks."""
    address, now = address_of(exchange, services), services.now()
    if rules.allows(address, now):
        return
    services.refused_keys.add(key_hash(exchange.headers.get(b"authorization")), caller)
    raise _refusal(rules, address, now)


async def check_refused_before(exchange: Exchange, services: Services, hashed: bytes) -> None:
    """Refuses a request, before it is counted, whose key was refused here for its rules and still is."""
    address, now = address_of(exchange, services), services.now()
    refused = await services.refused_keys.refused(hashed, address, now)
    if refused is None:
        return
    caller = refused.caller
    if caller is None or caller.rules is None:
        raise Unauthenticated(_UNKNOWN)
    exchange.caller, exchange.key_id = caller, caller.key_id
    raise _refusal(caller.rules, address, now)


def _refusal(rules: KeyRules, address: str, now: Ms) -> ApiError:
    if rules.is_expired(now):
        return Unauthenticated("This API key has expired. Use its successor, or ask an owner of the project for one.")
    return Forbidden(f"This API key does not work from the address {address}.")


def require_room(exchange: Exchange, services: Services, caller: Caller, app_user_id: str | None) -> None:
    """Refuses a request with a public key if its address, or its user from that address, has made too many."""
    address = network_of(address_of(exchange, services))
    wait = services.phone_limit.wait_ms(caller.app_id or "", caller.rate_limit, app_user_id, address, services.now())
    if wait is not None:
        raise TooManyRequests(wait, "Too many requests from this user or this address.")


def address_of(exchange: Exchange, services: Services) -> str:
    return exchange.address(behind_proxy=services.behind_proxy)


def require_scope(caller: Caller, *scopes: Scope) -> None:
    """One of these."""
    if caller.scopes.isdisjoint(scopes):
        raise Forbidden(f"This key lacks the scope '{scopes[-1]}'.")


def require_secret(caller: Caller) -> None:
    if caller.is_public:
        raise Forbidden("This needs a secret key; a public app key cannot do it.")


def require_project(caller: Caller, project_id: str) -> None:
    if project_id != caller.project_id:
        raise Forbidden("This key belongs to another project.")


# A coroutine: FastAPI runs a plain function in a thread, which costs more than the rest of a small request.
async def services_of(request: Request) -> Services:
    services: Services = request.scope[SERVICES_KEY]
    return services


Provided = Annotated[Services, Depends(services_of)]
# Only for the OpenAPI document: `key_hash` reads the header and raises our own errors.
_bearer = HTTPBearer(auto_error=False, scheme_name="ApiKey", description="A secret or public API key.")
documented = Depends(_bearer)
_Documented = Annotated[HTTPAuthorizationCredentials | None, documented]


@dataclass(frozen=True, slots=True)
class Call(InProject):
    """A request with a valid key."""

    request: Request
    services: Services
    caller: Caller

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def project_id(self) -> str:
        return self.caller.project_id

    @property
    def changes(self) -> Changes:
        return self.services.changes

    @property
    def exchange(self) -> Exchange:
        exchange: Exchange = self.request.scope[SCOPE_KEY]
        return exchange

    def now(self) -> Ms:
        return self.services.now()

    async def customer(self, id: str) -> CustomerView:
        """The customer with this id or alias."""
        return await self.services.reader.view(self.project_id, id, self.now())


Dependency: TypeAlias = Callable[..., Awaitable[Call]]


def secret_key(*scopes: Scope) -> Dependency:
    """A secret key with one of these scopes."""

    async def call(request: Request, services: Provided, _: _Documented) -> Call:
        caller = await caller_of(request.scope[SCOPE_KEY], services)
        require_secret(caller)
        require_scope(caller, *scopes)
        return Call(request, services, caller)

    return call


def project_key(*scopes: Scope) -> Dependency:
    """A secret key with one of these scopes, of the project in the path."""

    async def call(request: Request, services: Provided, project_id: Annotated[str, Path()], _: _Documented) -> Call:
        caller = await caller_of(request.scope[SCOPE_KEY], services)
        require_secret(caller)
        require_scope(caller, *scopes)
        require_project(caller, project_id)
        return Call(request, services, caller)

    return call


def any_key(scope: Scope, *, receipt: bool = False, spared: bool = False) -> Dependency:
    """Any key; a secret one must have this scope. `spared`: a phone over its limit gets 503. After a 4xx the SDKs never
    send attributes again, and do not show the offerings that they have kept."""

    async def call(request: Request, services: Provided, _: _Documented) -> Call:
        exchange, app_user_id = request.scope[SCOPE_KEY], request.path_params.get("app_user_id")
        try:
            caller = await app_caller(exchange, services, scope, app_user_id=app_user_id, receipt=receipt)
        except TooManyRequests as refused:
            if spared and exchange.caller.is_public:
                raise Unavailable(refused.message, retry_after_ms=refused.retry_after_ms) from None
            raise
        return Call(request, services, caller)

    return call


async def caller_of(
    exchange: Exchange, services: Services, *, app_user_id: str | None = None, receipt: bool = False
) -> Caller:
    """A receipt with a public key is never refused for its rate: a phone drops a purchase for good on any 4xx. A
    request is admitted, and counted, once."""
    if exchange.caller is not None:
        return exchange.caller
    hashed = key_hash(exchange.headers.get(b"authorization"))
    if services.refused_keys:
        await check_refused_before(exchange, services, hashed)
    reader = services.reader
    verdict = await (reader.authenticate_receipt(hashed) if receipt else reader.authenticate(hashed))
    caller = admitted(verdict, exchange, services)
    if caller.is_public and not receipt:
        require_room(exchange, services, caller, app_user_id)
    return caller


async def app_caller(
    exchange: Exchange, services: Services, scope: Scope, *, app_user_id: str | None = None, receipt: bool = False
) -> Caller:
    caller = await caller_of(exchange, services, app_user_id=app_user_id, receipt=receipt)
    if not caller.is_public:
        require_scope(caller, scope)
    return caller


ReadKey = Annotated[Call, Depends(project_key("read"))]
WriteKey = Annotated[Call, Depends(project_key("write"))]
# Charts can be computed from what the scope `read` shows. A key with `charts` alone reads nothing else.
ChartsKey = Annotated[Call, Depends(project_key("read", "charts"))]
SecretReadKey = Annotated[Call, Depends(secret_key("read"))]
SecretWriteKey = Annotated[Call, Depends(secret_key("write"))]
SecretKey = Annotated[Call, Depends(secret_key("charts", "write", "read"))]
AppReadKey = Annotated[Call, Depends(any_key("read"))]
AppWriteKey = Annotated[Call, Depends(any_key("write"))]
OfferingsKey = Annotated[Call, Depends(any_key("read", spared=True))]
AttributesKey = Annotated[Call, Depends(any_key("write", spared=True))]
ReceiptKey = Annotated[Call, Depends(any_key("write", receipt=True))]
