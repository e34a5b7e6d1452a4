import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latchkey.domain.outgoing_address import NotAllowed, Target, literal, refusal, target
from latchkey.http_client import Url

REFUSED = [
    "0.0.0.0", "0.255.255.255", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.255",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "64:ff9b::808:808",
    "64:ff9b:1::1", "100::1", "2001::1", "2001:1::1", "2001:db8::1", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1",
    "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
    # Forms that have an IPv4 address inside: IPv4-translated, IPv4-compatible, NAT64, 6to4, Teredo.
    "::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8", "::8.8.8.8", "64:ff9b::127.0.0.1", "64:ff9b:1::7f00:1",
    "2002:7f00:1::", "2001:0:7f00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdfd",
    # Never assigned to anybody, on both sides of global unicast.
    "1fff:ffff::1", "4000::1", "4000::", "6000::1", "8000::1", "c000::1", "f000::1", "::1:0:0:1", "200::1", "400::1",
    "fbff::1", "::ffff:ffff:7f00:1", "0:0:0:1::1", "3fff:fff::1", "2001:1ff:ffff::1", "4000::1%eth0", "::1%lo",
]  # fmt: skip
ALLOWED = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0",
    "198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450:4001::1",
    "2001:4860:4860::8888", "2000::1", "2001:200::1", "2003::1", "3ffe:ffff::1", "3fff:1000::1",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert refusal(ipaddress.ip_address(address)) is not None


@pytest.mark.parametrize("address", ALLOWED)
def test_a_public_address_is_allowed(address: str) -> None:
    assert refusal(ipaddress.ip_address(address)) is None


@given(st.ip_addresses())
def test_what_the_standard_library_calls_private_is_refused_too(address: ipaddress.IPv4Address) -> None:
    # Two of the library's exceptions inside 192.0.0.0/24 and 2001::/23 are of no use to a webhook.
    if not address.is_global or address.is_multicast:
        assert refusal(address) is not None


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_by_the_one_inside(address: ipaddress.IPv4Address) -> None:
    assert refusal(ipaddress.IPv6Address(f"::ffff:{address}")) == refusal(address)


@given(st.ip_addresses(v=6))
def test_only_global_unicast_is_public(address: ipaddress.IPv6Address) -> None:
    if int(address) >> 125 != 1 and address.ipv4_mapped is None:
        assert refusal(address) is not None


@given(st.ip_addresses(v=4), st.integers(0, 2**128 - 1), st.sampled_from(range(0, 97, 8)))
def test_no_ipv6_form_outside_global_unicast_reaches_an_ipv4_address(
    inner: ipaddress.IPv4Address, around: int, shift: int
) -> None:
    """Whatever the other bits are, and wherever in the address the 32 bits are."""
    mask = (2**32 - 1) << shift
    address = ipaddress.IPv6Address(around & ~mask | int(inner) << shift)
    if address.ipv4_mapped is None and address not in ipaddress.ip_network("2000::/3"):
        assert refusal(address) is not None


@given(st.ip_addresses(v=6), st.sampled_from(["eth0", "1", "lo"]))
def test_a_zone_changes_no_judgement(address: ipaddress.IPv6Address, zone: str) -> None:
    assert refusal(ipaddress.IPv6Address(f"{address}%{zone}")) == refusal(address)


@pytest.mark.parametrize(
    "url", ["https://[fe80::1%eth0]/", "https://[fe80::1%25eth0]/", "https://[2606:4700::1111%25lo]/"]
)
def test_a_url_with_a_zone_is_refused(url: str) -> None:
    with pytest.raises(NotAllowed):
        target(url)


def test_the_operator_may_list_a_network() -> None:
    listed = [ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("fd00::/8")]
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "fd00::5"):
        assert refusal(ipaddress.ip_address(address), listed) is None
    for address in ("10.0.0.1", "::1", "fc00::1"):
        assert refusal(ipaddress.ip_address(address), listed) is not None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "2130706433", "0x7f000001", "017700000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.01",
        "127.0.0.1.", "0x7f.0.0.0x1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]",
    ],
)  # fmt: skip
def test_loopback_is_recognised_in_every_notation(host: str) -> None:
    found = target(f"https://{host}/hook").literal
    assert found is not None
    assert refusal(found) == "loopback"


@given(
    st.ip_addresses(v=4), st.integers(1, 4), st.lists(st.sampled_from(["{}", "0x{:x}", "0X{:X}", "0{:o}"]), min_size=4)
)
def test_the_client_reads_every_notation_as_we_do(address: ipaddress.IPv4Address, parts: int, forms: list[str]) -> None:
    number = int(address)
    numbers = [number >> 8 * (3 - place) & 255 for place in range(parts - 1)]
    numbers.append(number & (1 << 8 * (5 - parts)) - 1)
    host = ".".join(form.format(one) for form, one in zip(forms, numbers, strict=False))
    assert literal(host) == address == ipaddress.ip_address(Url(f"https://{host}/").host_str or "")
    assert socket.inet_aton(host) == address.packed


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://example.com/", "https://"),
        ("ftp://example.com/", "https://"),
        ("example.com/hook", "https://"),
        ("", "https://"),
        ("https:///hook", "no host"),
        ("https://user:pass@example.com/", "user name"),
        ("https://user@example.com/", "user name"),
        ("https://example.com:0/", "no host"),
        ("https://example.com:99999/", "not a URL"),
        ("https://exa mple.com/", "percent-encoded"),
        ("https://example.com\\@evil.com/", "percent-encoded"),
        ("https://①②⑦.0.0.1/", "percent-encoded"),
        ("https://exam\nple.com/", "percent-encoded"),
        ("https://%31%32%37.0.0.1/", "plainly"),
        ("https://1.2.3.4.5/", "neither a name nor an address"),
        ("https://256.1.1.1/", "neither a name nor an address"),
        ("https://08.1.1.1/", "neither a name nor an address"),
        ("https://[::1/", "not a URL"),
        ("https://[nope]/", "not a"),
    ],
)
def test_a_url_that_cannot_be_used_says_why(url: str, complaint: str) -> None:
    with pytest.raises(NotAllowed, match=complaint):
        target(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/hook?a=b", Target("example.com", 443, None)),
        ("HTTPS://Example.COM:8443", Target("example.com", 8443, None)),
        ("https://xn--bcher-kva.example/", Target("xn--bcher-kva.example", 443, None)),
        ("https://1.1.1.1.example.com/", Target("1.1.1.1.example.com", 443, None)),
        ("https://8.8.8.8/", Target("8.8.8.8", 443, ipaddress.ip_address("8.8.8.8"))),
    ],
)
def test_a_good_url_leads_somewhere(url: str, expected: Target) -> None:
    assert target(url) == expected
