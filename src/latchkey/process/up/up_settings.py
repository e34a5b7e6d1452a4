"""Which settings of the environment `latchkey up` uses, and which it ignores."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from latchkey.cli.data_folder import DataFolder, write_private
from latchkey.process.local_ca.authority import LocalCertificates
from latchkey.process.safety import problems_of_connections
from latchkey.process.up.demo_stores import DemoStores
from latchkey.settings import LOOPBACK, PREFIX, ROLES, Settings, SettingsRefusedError, available_cpus, gather

# Settings that `up` sets itself, and why. `latchkey serve` uses all of them.
OWN: Mapping[str, str] = {
    "database_url": "it has a database of its own",
    "tls_cert": "it makes its own certificate",
    "tls_key": "it makes its own certificate",
    "behind_proxy": "it always listens with TLS",
    "roles": "it runs all of them",
    "secret_key": "it keeps a key in its folder",
    "store_emulators": "it names its own store emulators",
}
CONSUMER = f"{PREFIX}CONSUMER_"
MAX_CONNECTIONS = 100
SPARE_CONNECTIONS = 20


class UpSettings(Struct, frozen=True):
    given: Settings
    # Variables that are set, in the order of the documentation.
    taken: Sequence[str]
    ignored: Sequence[tuple[str, str]]

    @property
    def api_processes(self) -> int:
        """One for two cores: PostgreSQL and all the rest of `up` run on the same machine. At least two if there are two
        cores, so that one answers while the other is started again."""
        cpus = available_cpus()
        return self.given.workers or min(cpus, max(2, cpus // 2))

    @property
    def database(self) -> dict[str, str]:
        """What PostgreSQL's own settings must be for these."""
        # Of the service, and some for listening, for commands and for a look with psql.
        needed = (self.api_processes + 1) * self.given.database_connections + SPARE_CONNECTIONS
        return {"max_connections": str(max(MAX_CONNECTIONS, needed))}

    def settings(
        self, certificates: LocalCertificates, folder: DataFolder, stores: DemoStores | None = None, **own: Any
    ) -> Settings:
        """The service's settings: the given ones, and those that `up` sets. Of the folder's own folders those are used
        for which none is set, and that of mails only without a mail server."""
        given = self.given
        # A receiver on this machine, with a certificate of this folder's authority, needs no setting.
        trusted = certificates.authority
        if given.webhook_extra_ca is not None:
            write_private(folder.authorities, trusted.read_bytes() + b"\n" + given.webhook_extra_ca.read_bytes())
            trusted = folder.authorities
        return replace(
            given,
            roles=ROLES,
            behind_proxy=False,
            tls_cert=certificates.cert,
            tls_key=certificates.key,
            webhook_allow_networks=(*LOOPBACK, *given.webhook_allow_networks),
            webhook_extra_ca=trusted,
            store_allow_hosts=(*(stores.hosts if stores else ()), *given.store_allow_hosts),
            store_emulators=stores.emulators if stores else (),
            charts_folder=given.charts_folder or folder.charts,
            export_folder=given.export_folder or folder.exports,
            mail_folder=given.mail_folder or (None if given.smtp_host else folder.mail),
            **own,
        )


# Defaults that differ from `serve`: the log goes to a file, no proxy is in front, and somebody waits for it to stop.
DEFAULTS: Mapping[str, Any] = {"shutdown_delay_seconds": 0, "drain_seconds": 10, "log_format": "json"}


def settings_for_up(environ: Mapping[str, str], **flags: Any) -> UpSettings:
    """From the environment, its settings file, and the command line; the error lists all problems."""
    given, problems = gather(environ, overrides=flags, defaults=DEFAULTS)
    # It has its own database, so settings of another one do not matter.
    problems = [problem for problem in problems if problem.about != "database_url"]
    problems += problems_of_connections(given)
    if problems:
        raise SettingsRefusedError(problems)
    plain = Settings(**DEFAULTS)
    changed = [name for name in Settings.__struct_fields__ if getattr(given, name) != getattr(plain, name)]
    taken = [_variable(name) for name in changed if name not in OWN and flags.get(name) is None]
    ignored = [(_variable(name), OWN[name]) for name in changed if name in OWN]
    if any(name.startswith(CONSUMER) for name in environ):
        ignored.append((f"{CONSUMER}*", "it sets up the demo's consumer itself"))
    return UpSettings(given, taken, ignored)


def _variable(name: str) -> str:
    return PREFIX + name.upper()
