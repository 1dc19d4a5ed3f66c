"""Which addresses may be called: pure rules over numeric addresses (SSRF)."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# ``ipaddress.is_global`` is not used: its answer for NAT64, 6to4, site-local and multicast
# addresses differs between patch releases of Python, and is the unsafe one in older ones.
_FORBIDDEN_V4: Final = tuple(
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "a this-network address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a carrier-grade NAT address"),
        ("127.0.0.0/8", "a loopback address"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a protocol assignment"),
        ("192.0.2.0/24", "a documentation address"),
        ("192.31.196.0/24", "an AS112 address"),
        ("192.52.193.0/24", "an AMT address"),
        ("192.88.99.0/24", "a 6to4 relay address"),
        ("192.168.0.0/16", "a private address"),
        ("192.175.48.0/24", "an AS112 address"),
        ("198.18.0.0/15", "a benchmarking address"),
        ("198.51.100.0/24", "a documentation address"),
        ("203.0.113.0/24", "a documentation address"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)

# Of IPv6 only what IANA hands out for global unicast is allowed. That one rule removes NAT64,
# IPv4-compatible, unique-local, link-local, site-local, SRv6, discard-only and multicast.
_ALLOWED_V6: Final = IPv6Network("2000::/3")
_FORBIDDEN_V6: Final = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("2001::/23", "a protocol assignment"),  # Teredo is in here
        ("2001:db8::/32", "a documentation address"),
        ("2002::/16", "a 6to4 address"),
        ("2620:4f:8000::/48", "an AS112 address"),
        ("3fff::/20", "a documentation address"),
    )
)
_NAMED_V6: Final = (
    (IPv6Network("::1/128"), "a loopback address"),
    (IPv6Network("::/128"), "the unspecified address"),
    (IPv6Network("fc00::/7"), "a private address"),
    (IPv6Network("fe80::/10"), "a link-local address"),
    (IPv6Network("ff00::/8"), "a multicast address"),
)

_METADATA: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # nearly every cloud
        "169.254.170.2",  # Amazon ECS
        "169.254.170.23",  # Amazon EKS
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "168.63.129.16",  # Azure: a public address that only its machines can reach
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)


def read_address(text: str) -> Address | None:
    """Read a numeric address; an IPv4 address mapped into IPv6 becomes what it stands for.

    None for everything else: names, zones (``fe80::1%eth0``), and the short, octal or
    hexadecimal spellings that ``getaddrinfo`` would accept.
    """
    if "%" in text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def refusal(address: str, *, allow_networks: Iterable[Network] = ()) -> str | None:
    """Say why an address must not be called; None when it may be.

    Args:
        address: numeric, as the resolver or a URL gave it.
        allow_networks: the operator's exemptions (``FENCEPOST_ALLOW_NETWORKS``). A cloud's
            metadata service is exempt only where a network names it alone (/32 or /128), so
            that ``10.0.0.0/8,169.254.0.0/16`` or ``0.0.0.0/0`` does not hand out credentials.

    Returns:
        A noun phrase that completes "… is", such as ``a private address``.
    """
    found = read_address(address)
    if found is None:
        return "not an address"
    allowed = [network for network in allow_networks if _contains(network, found)]
    if found in _METADATA:
        exempt = any(network.num_addresses == 1 for network in allowed)
        return None if exempt else "a cloud metadata service"
    if allowed:
        return None
    if isinstance(found, IPv4Address):
        return next((why for network, why in _FORBIDDEN_V4 if found in network), None)
    if found not in _ALLOWED_V6:
        return next((why for network, why in _NAMED_V6 if found in network), "a reserved address")
    return next((why for network, why in _FORBIDDEN_V6 if found in network), None)


def _contains(network: Network, address: Address) -> bool:
    if isinstance(network, IPv4Network):
        return isinstance(address, IPv4Address) and address in network
    return isinstance(address, IPv6Address) and address in network
