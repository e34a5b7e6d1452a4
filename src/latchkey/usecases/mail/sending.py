"""How a mail leaves: through an SMTP server, or into a file. Both block, so they run in a thread."""

from __future__ import annotations

import os
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Literal, Protocol

Security = Literal["starttls", "tls", "none"]
# Seconds for each step of the conversation.
PATIENCE = 20.0


class NotSentError(Exception):
    """The mail could not be sent now. The message names no address and no secret."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


class Way(Protocol):
    def send(self, message: EmailMessage, name: str) -> None: ...
    def check(self) -> str:
        """Tries everything but sending, and says what it found. Raises NotSentError."""


@dataclass(frozen=True, slots=True)
class SmtpServer:
    host: str
    port: int
    security: Security
    user: str = ""
    password: str = field(default="", repr=False)
    extra_ca: Path | None = None

    def send(self, message: EmailMessage, name: str) -> None:  # noqa: ARG002 - for files
        with self._connected() as server:
            server.send_message(message)

    def check(self) -> str:
        with self._connected() as server:
            server.noop()
        return f"{self.host}:{self.port} takes mail"

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        try:
            with self._server() as server:
                if self.security == "starttls":
                    server.starttls(context=self._trust())
                if self.user:
                    server.login(self.user, self.password)
                yield server
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            raise NotSentError(f"the server refuses the recipient ({codes})", for_good=min(codes) >= 500) from None
        except smtplib.SMTPAuthenticationError as error:
            raise NotSentError(f"the server refuses the user or the password ({error.smtp_code})") from None
        except smtplib.SMTPNotSupportedError as error:
            raise NotSentError(f"the server cannot do that: {error}") from None
        except smtplib.SMTPResponseException as error:
            # The server's own words may repeat an address.
            raise NotSentError(f"the server answers {error.smtp_code}") from None
        except ssl.SSLCertVerificationError as error:
            raise NotSentError(f"the server's certificate is not trusted: {error.verify_message}") from None
        except (OSError, smtplib.SMTPException) as error:
            raise NotSentError(
                f"{type(error).__name__}: the server cannot be reached or ended the connection"
            ) from None
        except (ValueError, UnicodeError):
            raise NotSentError("the address cannot be written in a mail", for_good=True) from None

    def _server(self) -> smtplib.SMTP:
        if self.security == "tls":
            return smtplib.SMTP_SSL(self.host, self.port, timeout=PATIENCE, context=self._trust())
        return smtplib.SMTP(self.host, self.port, timeout=PATIENCE)

    def _trust(self) -> ssl.SSLContext:
        trust = ssl.create_default_context()
        if self.extra_ca is not None:
            trust.load_verify_locations(self.extra_ca)
        return trust


@dataclass(frozen=True, slots=True)
class MailFolder:
    """For one machine: each mail is a file that mail programs open."""

    path: Path

    def send(self, message: EmailMessage, name: str) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Whoever reads the link can sign in.
            place = os.open(self.path / f"{name}.eml", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(place, "wb") as file:
                file.write(message.as_bytes())
        except OSError as error:
            raise NotSentError(f"the folder for mails cannot be written: {error.strerror}") from None

    def check(self) -> str:
        existing = next(one for one in (self.path, *self.path.parents) if one.exists())
        if not os.access(existing, os.W_OK):
            raise NotSentError(f"{existing} cannot be written")
        return f"mails are written to files in {self.path}"
