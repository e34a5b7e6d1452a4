"""Certificates for receivers: good ones, and one that expired yesterday."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


@dataclass(frozen=True)
class Certificates:
    authority: Path
    good: tuple[Path, Path]
    expired: tuple[Path, Path]
    # Signed by an authority that nobody trusts.
    stranger: tuple[Path, Path]


def make(folder: Path) -> Certificates:
    folder.mkdir(exist_ok=True)
    authority, stranger = _signed(None), _signed(None)
    (folder / "authority.pem").write_bytes(authority[0].public_bytes(Encoding.PEM))
    return Certificates(
        folder / "authority.pem",
        _write(folder, "good", _signed(authority)),
        _write(folder, "expired", _signed(authority, ends=timedelta(days=-1))),
        _write(folder, "stranger", _signed(stranger)),
    )


def _signed(by: Pair | None, ends: timedelta = timedelta(days=30)) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost" if by else "Test authority")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by[0].subject if by else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(by[1] if by else key, hashes.SHA256())
    )
    return certificate, key


def _write(folder: Path, name: str, pair: Pair) -> tuple[Path, Path]:
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(pair[0].public_bytes(Encoding.PEM))
    key.write_bytes(pair[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    # `serve` refuses a key that others can read.
    key.chmod(0o600)
    return cert, key


@pytest.fixture(scope="session")
def certs(short_folder: Path) -> Certificates:
    return make(short_folder / "certificates")
