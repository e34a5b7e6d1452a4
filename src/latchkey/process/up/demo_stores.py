"""The store emulators of `latchkey up`: their sockets, and the input of their process.

ports.json                 so that the next `up` has the same addresses, which are in the credentials of the demo's apps
apple/, google/, stripe/   their keys and purchases (see emulate/folder.py)

They run in one process of their own (`demo_stores_server.py`), which loads its code when everything else is up: the
start of `up` does not wait for them. Their sockets listen from the beginning, so whoever is early waits for a moment.
"""

import socket
from pathlib import Path

import msgspec

from latchkey.cli.data_folder import Connection, EmulatorConnection, read_json, write_json
from latchkey.process.supervision.listeners import bind_wished
from latchkey.process.supervision.supervisor import Child
from latchkey.subjects.demo.usecases.project import PROJECT_ID, STORE_APPS

MODULE = "latchkey.process.up.demo_stores_server"
# The control API has no password: it is on loopback, wherever the service listens.
_HOST = "127.0.0.1"


class StoresOrders(msgspec.Struct, frozen=True, kw_only=True):
    connection: Connection
    folder: str
    # File descriptors: "apple_api", "apple_control", ...
    sockets: dict[str, int]


class DemoStores:
    def __init__(self, folder: Path, first_port: int) -> None:
        """On the ports of the last run, else from `first_port` on; on any free ones if it is 0 or they are taken."""
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept, path = read_json(folder / "ports.json"), folder / "ports.json"
        self._sockets: dict[str, socket.socket] = {}
        for number, name in enumerate(f"{store}_{what}" for store in STORE_APPS for what in ("api", "control")):
            last = kept.get(name)
            wishes = [last if isinstance(last, int) else 0, first_port and first_port + number]
            self._sockets[name] = bind_wished(_HOST, wishes)
        write_json(path, {name: one.getsockname()[1] for name, one in self._sockets.items()})
        sockets = tuple(self._sockets.values())
        self.child = Child("stores", ("stores",), module=MODULE, also=sockets, reserve=True)

    @property
    def hosts(self) -> tuple[str, ...]:
        """For `store_allow_hosts`: these ports, and nothing else on this machine."""
        return tuple(f"{_HOST}:{self._port(store, 'api')}" for store in STORE_APPS)

    @property
    def emulators(self) -> tuple[str, ...]:
        """For `store_emulators`."""
        return tuple(
            f"{PROJECT_ID}/{app_id}={self._control_url(store)}" for store, (app_id, _, _) in STORE_APPS.items()
        )

    def connections(self, public_keys: dict[str, str]) -> dict[str, EmulatorConnection]:
        return {
            store: EmulatorConnection(
                app_id=app_id,
                public_api_key=public_keys[store],
                api_url=f"http://{_HOST}:{self._port(store, 'api')}",
                control_url=self._control_url(store),
            )
            for store, (app_id, _, _) in STORE_APPS.items()
        }

    def tell(self, connection: Connection) -> None:
        sockets = {name: one.fileno() for name, one in self._sockets.items()}
        orders = StoresOrders(connection=connection, folder=str(self._folder), sockets=sockets)
        self.child.settings = msgspec.to_builtins(orders)

    def _port(self, store: str, what: str) -> int:
        port: int = self._sockets[f"{store}_{what}"].getsockname()[1]
        return port

    def _control_url(self, store: str) -> str:
        return f"http://{_HOST}:{self._port(store, 'control')}/control"
