"""The security headers of every page."""

from __future__ import annotations

from ipaddress import ip_address

from starlette.types import Message

# Only our own files, nothing inline: text stored by others cannot become code, however it gets onto a page.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    # The URL of a page contains customer ids; do not send it to other sites.
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
ALWAYS_TLS = (b"strict-transport-security", b"max-age=31536000")


def secure(message: Message, host: str) -> Message:
    headers = list(message.get("headers", ()))
    present = {name for name, _ in headers}
    headers += [header for header in HEADERS if header[0] not in present]
    if b"cache-control" not in present:
        headers.append((b"cache-control", b"no-store"))
    if is_public_name(host):
        headers.append(ALWAYS_TLS)
    return {**message, "headers": headers}


def is_public_name(host: str) -> bool:
    """On a local host name, HSTS would affect every other program on that name too."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return "." in name and not name.endswith((".localhost", ".local", ".test"))
    return False
