"""Both sides of every border of what may be called."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.egress import read_address, refusal

FORBIDDEN_RANGES = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
]


@pytest.mark.parametrize("text", FORBIDDEN_RANGES)
def test_a_range_is_forbidden_from_its_first_address_to_its_last(text: str) -> None:
    network = ip_network(text)
    assert refusal(str(network.network_address)) is not None
    assert refusal(str(network.broadcast_address)) is not None


@pytest.mark.parametrize("text", [text for text in FORBIDDEN_RANGES if text != "224.0.0.0/3"])
def test_the_neighbours_of_a_range_are_allowed(text: str) -> None:
    network = ip_network(text)
    below, above = int(network.network_address) - 1, int(network.broadcast_address) + 1
    version = type(network.network_address)
    if below > 0 and text != "2001::/23":  # 2000:ffff:… is in the allowed eighth, below it too
        assert refusal(str(version(below))) is None
    assert refusal(str(version(above))) is None or text == "3fff::/20"


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "223.255.255.255",
        "168.63.129.15",
        "168.63.129.17",
        "2000::",
        "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "2001:200::",
        "2606:4700::1111",
        "3ffe:ffff::1",
        "3fff:1000::",
        "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "::ffff:1.1.1.1",
    ],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize(
    "address",
    [
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "0:0:0:0:0:ffff:7f00:1",
        "::127.0.0.1",
        "::7f00:1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::1",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd00::1",
        "ff02::1",
        "100::1",
        "100:0:0:1::1",
        "5f00::1",
        "3fff::1",
        "4000::1",
        "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "2001:db8::1",
    ],
)
def test_everything_else_in_ipv6_is_forbidden(address: str) -> None:
    assert refusal(address) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "fe80::1%eth0",
        "2606:4700::1111%1",
        "127.1",
        "0177.0.0.1",
        "127.000.000.001",
        "0x7f000001",
        "2130706433",
        "1.1.1.1/32",
        " 1.1.1.1",
        "[::1]",
        "١.1.1.1",  # noqa: RUF001 - an Arabic digit
    ],
)
def test_what_is_no_address_is_forbidden(text: str) -> None:
    assert refusal(text) == "not an address"
    assert refusal(text, allow_networks=[ip_network("0.0.0.0/0")]) == "not an address"


def test_an_allowed_network_exempts_its_own_addresses_only() -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")]
    assert refusal("10.1.0.0", allow_networks=allowed) is None
    assert refusal("10.1.255.255", allow_networks=allowed) is None
    assert refusal("::ffff:10.1.2.3", allow_networks=allowed) is None
    assert refusal("fd00:1::1", allow_networks=allowed) is None
    assert refusal("10.0.255.255", allow_networks=allowed) == "a private address"
    assert refusal("10.2.0.0", allow_networks=allowed) == "a private address"
    assert refusal("fd00:2::1", allow_networks=allowed) == "a private address"
    assert refusal("::1", allow_networks=[ip_network("127.0.0.0/8")]) == "a loopback address"


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::ffff:169.254.169.254",
    ],
)
def test_a_metadata_service_is_exempt_only_when_named_alone(address: str) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert refusal(address) == "a cloud metadata service"
    assert refusal(address, allow_networks=everything) == "a cloud metadata service"
    found = read_address(address)
    assert found is not None
    assert refusal(address, allow_networks=[ip_network(found)]) is None


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_outside_the_unicast_eighth_is_allowed(address: object) -> None:
    text = str(address)
    inside = ip_address(text) in ip_network("2000::/3") or text.startswith("::ffff:")
    assert inside or refusal(text) is not None


@given(st.text(max_size=40))
def test_no_text_makes_it_raise(text: str) -> None:
    refusal(text, allow_networks=[ip_network("10.0.0.0/8")])
