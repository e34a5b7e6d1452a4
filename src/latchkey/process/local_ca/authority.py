"""A local certificate authority in the data folder: HTTPS everywhere, even on loopback, with nothing installed.

It can sign only for this machine and for private networks (name constraints), so that trusting it risks little.
"""

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from latchkey.cli.data_folder import write_private

AUTHORITY_LIFE = timedelta(days=3650)
# Apple's platforms refuse server certificates that are valid for more than 825 days, public ones 398.
LEAF_LIFE = timedelta(days=397)
RENEW_BEFORE = timedelta(days=30)
# A client whose clock is a little slow must not see a certificate from the future.
BACKDATED = timedelta(hours=1)

_NAMES = ("localhost", ".localhost", ".local", ".internal")
_NETWORKS = ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7", "fe80::/10")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class LocalCertificates(Struct, frozen=True):
    authority: Path
    cert: Path
    key: Path


def ensure_certificates(folder: Path, addresses: list[Address], now_ms: int) -> LocalCertificates:
    """The authority and a certificate for localhost and `addresses`: created if missing, renewed before they expire."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    folder.mkdir(mode=0o700, exist_ok=True)
    made = LocalCertificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    authority_key = folder / "authority.key"
    wanted = dict.fromkeys([ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"), *addresses])
    authority = _read(made.authority, authority_key)
    # An authority that expires before a new leaf would is replaced.
    if authority is None or authority[0].not_valid_after_utc < now + LEAF_LIFE:
        authority = _make_authority(now)
        write_private(authority_key, _pem(authority[1]))
        write_private(made.authority, authority[0].public_bytes(Encoding.PEM), mode=0o644)
    leaf = _read(made.cert, made.key)
    if leaf is None or not _serves(leaf[0], authority[0], list(wanted), now):
        leaf = _make_leaf(authority, list(wanted), now)
        write_private(made.key, _pem(leaf[1]))
        write_private(made.cert, leaf[0].public_bytes(Encoding.PEM), mode=0o644)
    return made


def signs_only_here(certificate: x509.Certificate) -> bool:
    """Whether its name constraints limit this authority to this machine and private networks."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.NameConstraints)
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return False
    permitted = constraints.value.permitted_subtrees or []
    names = {name.value for name in permitted if isinstance(name, x509.DNSName)}
    networks = {str(name.value) for name in permitted if isinstance(name, x509.IPAddress)}
    # Without a constraint for a kind of name, everything of that kind would be permitted.
    return (
        basic.ca and constraints.critical and bool(names) and bool(networks)
        and names <= set(_NAMES) and networks <= set(_NETWORKS)
    )  # fmt: skip


def may_sign_for(address: Address) -> bool:
    return any(address in ipaddress.ip_network(network) for network in _NETWORKS)


Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _read(cert: Path, key: Path) -> Pair | None:
    """The pair, if it is complete: a start that was interrupted between the two files counts as none."""
    try:
        certificate = x509.load_pem_x509_certificate(cert.read_bytes())
        private = load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError):
        return None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != certificate.public_key():
        return None
    os.chmod(key, 0o600)
    return certificate, private


def _serves(leaf: x509.Certificate, authority: x509.Certificate, wanted: list[Address], now: datetime) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except Exception:  # an invalid certificate is replaced
        return False
    named = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.IPAddress
    )
    return leaf.not_valid_after_utc > now + RENEW_BEFORE and set(wanted) <= set(named)


def _make_authority(now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The random part of the name tells two authorities of one machine apart in a trust store.
    name = _name(f"Latchkey local authority {os.urandom(3).hex()}")
    permitted: list[x509.GeneralName] = [x509.DNSName(one) for one in _NAMES]
    permitted += [x509.IPAddress(ipaddress.ip_network(network)) for network in _NETWORKS]
    builder = (
        _builder(name, name, key, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256()), key


def _make_leaf(authority: Pair, addresses: list[Address], now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), *(x509.IPAddress(address) for address in addresses)]
    builder = (
        _builder(_name("localhost"), authority[0].subject, key, now, LEAF_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority[1].public_key()), critical=False)
    )
    return builder.sign(authority[1], hashes.SHA256()), key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
