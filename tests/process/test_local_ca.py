import ipaddress
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from latchkey.process.local_ca.authority import (
    AUTHORITY_LIFE,
    LEAF_LIFE,
    LocalCertificates,
    ensure_certificates,
    may_sign_for,
)

NOW = 1_800_000_000_000
LOOPBACK = [ipaddress.ip_address("127.0.0.1")]


def after(life: timedelta) -> int:
    return NOW + int(life.total_seconds() * 1000)


def contents(made: LocalCertificates) -> tuple[bytes, bytes, bytes]:
    return made.authority.read_bytes(), made.cert.read_bytes(), made.key.read_bytes()


@pytest.fixture
def made(tmp_path: Path) -> LocalCertificates:
    return ensure_certificates(tmp_path / "tls", LOOPBACK, NOW)


def test_the_certificate_is_for_this_machine_by_all_its_names(made: LocalCertificates) -> None:
    leaf = x509.load_pem_x509_certificate(made.cert.read_bytes())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert set(names.get_values_for_type(x509.IPAddress)) == set(map(ipaddress.ip_address, ("127.0.0.1", "::1")))


def test_keys_are_closed_to_others(made: LocalCertificates) -> None:
    for key in (made.key, made.authority.with_suffix(".key")):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_second_start_keeps_everything(made: LocalCertificates, tmp_path: Path) -> None:
    before = contents(made)
    assert contents(ensure_certificates(tmp_path / "tls", LOOPBACK, NOW + 1)) == before


def test_the_certificate_is_renewed_before_it_ends_by_the_same_authority(
    made: LocalCertificates, tmp_path: Path
) -> None:
    authority, cert, key = contents(made)
    renewed = contents(ensure_certificates(tmp_path / "tls", LOOPBACK, after(LEAF_LIFE - timedelta(days=29))))
    assert renewed[0] == authority
    assert renewed[1] != cert
    assert renewed[2] != key


def test_a_new_address_makes_a_new_certificate(made: LocalCertificates, tmp_path: Path) -> None:
    before = contents(made)
    wider = [*LOOPBACK, ipaddress.ip_address("192.168.1.5")]
    assert contents(ensure_certificates(tmp_path / "tls", wider, NOW))[1] != before[1]


def test_an_authority_that_would_end_first_is_replaced(made: LocalCertificates, tmp_path: Path) -> None:
    before = contents(made)
    later = contents(ensure_certificates(tmp_path / "tls", LOOPBACK, after(AUTHORITY_LIFE - LEAF_LIFE) + 86_400_000))
    assert later[0] != before[0]


@pytest.mark.parametrize("damaged", ["server.key", "server.pem", "authority.key", "authority.pem"])
def test_a_damaged_or_half_written_file_is_made_anew(made: LocalCertificates, tmp_path: Path, damaged: str) -> None:
    (tmp_path / "tls" / damaged).write_bytes(b"half of it")
    again = ensure_certificates(tmp_path / "tls", LOOPBACK, NOW)
    leaf = x509.load_pem_x509_certificate(again.cert.read_bytes())
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(again.authority.read_bytes()))


def test_the_authority_can_vouch_only_for_this_machine_and_private_networks(made: LocalCertificates) -> None:
    authority = x509.load_pem_x509_certificate(made.authority.read_bytes())
    constraints = authority.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert may_sign_for(ipaddress.ip_address("10.1.2.3"))
    assert not may_sign_for(ipaddress.ip_address("8.8.8.8"))
    leaf = x509.load_pem_x509_certificate(made.cert.read_bytes())
    verifier = PolicyBuilder().store(Store([authority])).time(leaf.not_valid_before_utc + timedelta(days=1))
    verifier.build_server_verifier(x509.IPAddress(LOOPBACK[0])).verify(leaf, [])
    with pytest.raises(VerificationError):
        verifier.build_server_verifier(x509.DNSName("example.com")).verify(leaf, [])
