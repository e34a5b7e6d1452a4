"""The store emulators of `latchkey up` as one process: serves them, and connects the demo's apps to them as an operator
would, through the service's API."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from latchkey import logs
from latchkey.cli.data_folder import Connection, read_json, write_json
from latchkey.cli.emulate.folder import EmulatorFolder
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.emulator_server import keep_time, running
from latchkey.first_of import first_of
from latchkey.http_client import HttpClient, HttpError
from latchkey.process.supervision.supervisor_channel import SupervisorChannel, run_child
from latchkey.process.up.demo_stores import StoresOrders

log = structlog.get_logger()

_PACKAGE = "com.example.demo"
_LONGEST_WAIT = 5.0


class _NotNowError(Exception):
    """The service cannot be asked at this moment."""


class _RefusedError(Exception):
    """The service does not want it, and will not want it later."""


async def serve(orders: StoresOrders, stop: asyncio.Event) -> None:
    authority = Path(orders.connection.ca_cert).read_bytes
    async with HttpClient(timeout=60, extra_ca=authority(), use_proxy=False) as http:
        # A store that fails ends the process, and the supervisor starts it again.
        await first_of(stop.wait(), *(_live(orders, name, http, authority) for name in orders.connection.stores))


async def _live(orders: StoresOrders, name: str, http: HttpClient, authority: Callable[[], bytes]) -> None:
    folder = EmulatorFolder(Path(orders.folder) / name).prepare()
    store = _open(name, folder)
    store.outbox.authority = authority

    async def connect(base_url: str) -> None:
        # Before anybody can sell: the service could not check such a sale.
        store.outbox.url = await _connected(http, orders.connection, name, folder, store.credentials(base_url))

    api, control = (_socket(orders.sockets[f"{name}_{what}"]) for what in ("api", "control"))
    async with running(store, listening=api, control=control, before_control=connect) as served:
        write_json(folder.control, {"store": store.name, "control_url": served.control_url})
        try:
            await keep_time(store)
        finally:
            folder.control.unlink(missing_ok=True)


async def _connected(
    http: HttpClient, service: Connection, name: str, folder: EmulatorFolder, credentials: dict[str, Any]
) -> str | None:
    """Saves the credentials of one store in the service, where that is needed. Returns the notification URL; None if
    the service refuses the credentials, or the app is gone."""
    app_id = service.stores[name].app_id
    url = f"{service.base_url}/v2/projects/{service.project_id}/apps/{app_id}/credentials"
    wait = 0.1
    while True:
        try:
            known = await _ask(http, service, "GET", url)
            shown, last = known["credentials"], read_json(folder.credentials)
            if shown is None or (_is_ours(shown, last, credentials) and last != credentials):
                known = await _ask(http, service, "PUT", url, credentials)
                write_json(folder.credentials, credentials)
                log.info("demo app connected", app_id=app_id, check=known["check"]["result"])
            return str(known["notification_url"])
        except _NotNowError:
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
        except _RefusedError as error:
            log.error("demo app not connected", app_id=app_id, reason=str(error))
            return None


def _is_ours(shown: dict[str, Any], last: dict[str, Any], credentials: dict[str, Any]) -> bool:
    """Whoever has put credentials of their own into the app keeps them."""
    if "bundle_id" in credentials or "package_name" in credentials:
        return (shown.get("bundle_id") or shown.get("package_name")) in (None, _PACKAGE)
    return shown.get("api_base_url") in (credentials["api_base_url"], last.get("api_base_url"))


async def _ask(http: HttpClient, service: Connection, method: str, url: str, body: Any = None) -> dict[str, Any]:
    try:
        reply = await http.ask(method, url, authorization=f"Bearer {service.api_key}", json=body)
    except HttpError as error:
        raise _NotNowError from error
    if reply.status == 429 or reply.status >= 500:
        raise _NotNowError
    if reply.status >= 300:
        raise _RefusedError(f"the service answered {reply.status}")
    return msgspec.json.decode(reply.body, type=dict[str, Any])


def _open(name: str, folder: EmulatorFolder) -> Emulator[Any, Any]:
    if name == "apple":
        return folder.apple(bundle_id=_PACKAGE, app_apple_id=None, production=None)
    if name == "stripe":
        return folder.stripe()
    return folder.google(package_name=_PACKAGE, audience=None, production=None)


def _socket(number: int) -> socket.socket:
    listening = socket.socket(fileno=number)
    listening.setblocking(False)
    return listening


def main() -> None:
    run_child(_run)


async def _run(channel: SupervisorChannel) -> None:
    logs.configure("info", "json", lasting=True)
    channel.ready()
    await serve(msgspec.convert(channel.orders.settings, StoresOrders), channel.stop)
