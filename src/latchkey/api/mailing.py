"""How this service sends mail, as the settings say. Imports no web framework: the clock role uses it too."""

from __future__ import annotations

from latchkey.settings import Settings
from latchkey.storage.database import Database
from latchkey.usecases.mail.outbox import Mail
from latchkey.usecases.mail.sending import MailFolder, SmtpServer, Way

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
