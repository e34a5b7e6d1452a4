"""Translates the client's errors into text that a person can act on."""

from latchkey.domain.outgoing_address import NotAllowed, Target, literal, target
from latchkey.http_client import HttpConnectTimeoutError, HttpTimeoutError, Url, causes_of

# The client lists nested causes. The first entry here that matches one of them names the failure.
_WORDS = (
    ("certificate expired", "certificate expired"),
    ("CertExpired", "certificate expired"),
    ("not valid yet", "certificate not valid yet"),
    ("not valid for name", "certificate belongs to another name"),
    ("NotValidForName", "certificate belongs to another name"),
    ("UnknownIssuer", "certificate not trusted: its issuer is unknown"),
    ("invalid peer certificate", "certificate not trusted"),
    ("Connection refused", "connection refused"),
    ("Network is unreachable", "no route to the receiver"),
    ("No route to host", "no route to the receiver"),
    ("InvalidContentType", "the receiver does not speak TLS"),
    ("HandshakeFailure", "TLS handshake refused"),
    ("received fatal alert", "TLS handshake refused"),
    ("connection closed", "the receiver closed the connection before it had answered"),
    ("close_notify", "the receiver closed the connection before it had answered"),
    ("Connection reset", "the receiver closed the connection before it had answered"),
    ("Broken pipe", "the receiver closed the connection before it had answered"),
    ("end of file", "the receiver closed the connection before it had answered"),
    ("invalid HTTP", "the answer is not HTTP"),
    ("invalid URI", "the answer is not HTTP"),
    ("parsed", "the answer is not HTTP"),
)
_NOT_CONNECTED = ("tcp connect error", "Connection refused", "Network is unreachable", "No route to host")


def in_words(error: Exception, took_ms: int, timeout_ms: int) -> str:
    if isinstance(error, TimeoutError | HttpTimeoutError):
        if isinstance(error, HttpConnectTimeoutError) and took_ms < timeout_ms * 0.9:
            return f"could not connect within {_seconds(took_ms)}"
        return f"timed out after {_seconds(timeout_ms)}"
    causes = causes_of(error)
    for sign, words in _WORDS:
        if any(sign in cause for cause in causes):
            return words
    return f"request failed: {causes[-1]}" if causes else f"request failed: {type(error).__name__}"


def never_connected(error: Exception) -> bool:
    """Whether nothing was sent, so that another address of the same host may be tried in the same attempt."""
    return any(sign in cause for cause in causes_of(error) for sign in _NOT_CONNECTED)


def of_status(status: int, location: str | None) -> str:
    if 300 <= status < 400:
        return f"redirect ({status}) to {location or 'nowhere'}: redirects are not followed"
    return f"answered {status} instead of 200"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:g} s"


# Reads a URL as our rules and as the HTTP client do. Where they disagree, it is refused.


def parsed(url: str) -> tuple[Target, Url]:
    """The target of a URL in both forms. If the client saw another host than ours, it would connect to another one than
    the checked one."""
    known = target(url)
    client_sees = Url(url)
    host = client_sees.host_str or ""
    same = host == known.host if known.literal is None else literal(host) == known.literal
    if not same or client_sees.port_or_known_default != known.port:
        raise NotAllowed(f"address not allowed: {url} can be read in two ways")
    return known, client_sees
