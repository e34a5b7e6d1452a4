"""The store emulators of `latchkey up` as one process: serves them, and connects the demo's apps to them as an operator
would, through the service's API."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from latchkey import logs
from latchkey.cli.data_folder import Connection, read_json, write_json
from latchkey.cli.emulate.folder import EmulatorFolder
from latchkey.cli.service_client import ServiceAway, ServiceClient, client_of_up
from latchkey.domain.refusal import Refusal
from latchkey.emulators.emulator import Emulator
from latchkey.emulators.emulator_server import keep_time, running
from latchkey.first_of import first_of
from latchkey.process.supervision.supervisor_channel import SupervisorChannel, run_child
from latchkey.process.up.demo_stores import StoresOrders

log = structlog.get_logger()

_PACKAGE = "com.example.demo"
_LONGEST_WAIT = 5.0


async def serve(orders: StoresOrders, stop: asyncio.Event) -> None:
    authority = Path(orders.connection.ca_cert).read_bytes
    async with client_of_up(orders.connection) as service:
        # A store that fails ends the process, and the supervisor starts it again.
        await first_of(stop.wait(), *(_live(orders, name, service, authority) for name in orders.connection.stores))


async def _live(orders: StoresOrders, name: str, service: ServiceClient, authority: Callable[[], bytes]) -> None:
    folder = EmulatorFolder(Path(orders.folder) / name).prepare()
    opened: dict[str, Callable[[], Emulator[Any, Any]]] = {
        "apple": partial(folder.apple, bundle_id=_PACKAGE),
        "google": partial(folder.google, package_name=_PACKAGE),
        "stripe": folder.stripe,
    }
    store = opened[name]()
    store.outbox.authority = authority

    async def connect(base_url: str) -> None:
        # Before anybody can sell: the service could not check such a sale.
        store.outbox.url = await _connected(service, orders.connection, name, folder, store.credentials(base_url))

    api, control = (_socket(orders.sockets[f"{name}_{what}"]) for what in ("api", "control"))
    async with running(store, listening=api, control=control, before_control=connect) as served:
        write_json(folder.control, {"store": store.name, "control_url": served.control_url})
        try:
            await keep_time(store)
        finally:
            folder.control.unlink(missing_ok=True)


async def _connected(
    service: ServiceClient, up: Connection, name: str, folder: EmulatorFolder, credentials: dict[str, Any]
) -> str | None:
    """Saves the credentials of one store in the service, where that is needed. Returns the notification URL; None if
    the service refuses the credentials, or the app is gone."""
    app_id = up.stores[name].app_id
    path = f"/v2/projects/{up.project_id}/apps/{app_id}/credentials"
    wait = 0.1
    while True:
        try:
            known = await service.ask("GET", path)
            shown, last = known["credentials"], read_json(folder.credentials)
            if shown is None or (_is_ours(shown, last, credentials) and last != credentials):
                known = await service.ask("PUT", path, credentials)
                write_json(folder.credentials, credentials)
                log.info("demo app connected", app_id=app_id, check=known["check"]["result"])
            return str(known["notification_url"])
        except ServiceAway:
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
        except Refusal as error:
            log.error("demo app not connected", app_id=app_id, reason=str(error))
            return None


def _is_ours(shown: dict[str, Any], last: dict[str, Any], credentials: dict[str, Any]) -> bool:
    """Whoever has put credentials of their own into the app keeps them."""
    if "bundle_id" in credentials or "package_name" in credentials:
        return (shown.get("bundle_id") or shown.get("package_name")) in (None, _PACKAGE)
    return shown.get("api_base_url") in (credentials["api_base_url"], last.get("api_base_url"))


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
