"""A real SMTP server on this machine, with real TLS."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from latchkey.process.local_ca.authority import LocalCertificates
from latchkey.subjects.mail.usecases import Security, SmtpServer

USER, PASSWORD = "latchkey", "hunter2 of the mail server"


@dataclass
class MailServer:
    certificates: LocalCertificates
    security: Security
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    # To whom, as the envelope says.
    recipients: list[str] = field(default_factory=list)
    # What it answers instead of taking a mail.
    refuses: str = ""
    # What it answers to QUIT.
    farewell: str = "221 Bye"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        if self.refuses:
            return self.refuses
        made = message_from_bytes(envelope.original_content, policy=policy.default)
        assert isinstance(made, EmailMessage)
        self.mails.append(made)
        self.recipients += envelope.rcpt_tos
        return "250 OK"

    async def handle_QUIT(self, _server: Any, _session: Any, _envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        return self.farewell

    def way(self, *, password: str = PASSWORD, extra_ca: Path | None = None) -> SmtpServer:
        user = USER if self.security != "none" else ""
        authority = extra_ca or self.certificates.authority
        return SmtpServer("127.0.0.1", self.port, self.security, user, password if user else "", authority)


def _authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
    right = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=right)


@asynccontextmanager
async def mail_server(certificates: LocalCertificates, security: Security = "starttls") -> AsyncIterator[MailServer]:
    made = MailServer(certificates, security)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.cert, certificates.key)

    def protocol() -> SMTP:
        # With TLS from the first byte, aiosmtpd does not know that there is any.
        known: dict[str, Any] = {"tls_context": context, "require_starttls": True} if security == "starttls" else {}
        auth: dict[str, Any] = {"auth_required": True, "authenticator": _authenticate} if security != "none" else {}
        with warnings.catch_warnings():
            # It warns of passwords without TLS, where it does not know that there is TLS.
            warnings.simplefilter("ignore")
            return SMTP(
                made,
                hostname="localhost",
                enable_SMTPUTF8=True,
                auth_require_tls=security == "starttls",
                **known,
                **auth,
            )

    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=context if security == "tls" else None)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
