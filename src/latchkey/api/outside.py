"""What the service connects to, as the settings say: stores, mail and the places of exports. Imports no web framework:
background processes and commands use it too."""

from __future__ import annotations

from collections.abc import Callable

from latchkey.delivery.sealing import Sealer
from latchkey.domain.instants import Ms
from latchkey.settings import Settings
from latchkey.storage.database import Database
from latchkey.usecases.exports.schedules import Exports
from latchkey.usecases.mail.outbox import Mail
from latchkey.usecases.mail.sending import MailFolder, SmtpServer, Way
from latchkey.usecases.stores.connections import Connections, adapters


def connect(database: Database, settings: Settings, now: Callable[[], Ms]) -> Connections:
    """The apps' connections to their stores."""
    extra_ca = settings.store_extra_ca.read_bytes() if settings.store_extra_ca is not None else None
    hosts = frozenset(settings.store_allow_hosts)
    return Connections(database, Sealer(settings.secret_key), adapters(extra_ca), hosts, now)


# Of mails that are written to files and never leave this machine.
NOBODY = "Latchkey <latchkey@localhost>"


def way_of(settings: Settings) -> Way | None:
    """None: no mail is sent, and links are shown to be copied."""
    if settings.smtp_host:
        return SmtpServer(
            settings.smtp_host,
            settings.smtp_port,
            settings.smtp_security,
            settings.smtp_user,
            settings.smtp_password,
            settings.smtp_extra_ca,
        )
    return MailFolder(settings.mail_folder) if settings.mail_folder is not None else None


def mail_of(database: Database, settings: Settings) -> Mail | None:
    way = way_of(settings)
    if way is None or not settings.public_url:
        return None
    return Mail(database, way, settings.mail_from or NOBODY, settings.public_url.rstrip("/"))


def exports_of(database: Database, settings: Settings) -> Exports:
    sealer = Sealer(settings.secret_key)
    return Exports(database, sealer, settings.export_folder, frozenset(settings.export_allow_hosts))
