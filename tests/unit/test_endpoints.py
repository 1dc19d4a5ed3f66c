"""What a subscription's URL may be, and what of it is shown."""

from ipaddress import ip_network
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.endpoints import Endpoint, check_url, known_address, mask_path
from fencepost.errors import InvalidInputError

LOOPBACK = (ip_network("127.0.0.0/8"),)


def check(url: object, **options: object) -> Endpoint:
    return check_url(url, **{"allow_http": True, **options})  # type: ignore[arg-type]


def refused(url: object, **options: object) -> str:
    with pytest.raises(InvalidInputError) as caught:
        check(url, **options)
    assert caught.value.field == "url"
    return str(caught.value)


def test_a_plain_endpoint_is_taken_apart() -> None:
    endpoint = check("https://hooks.example.com/in/orders")
    assert endpoint == Endpoint(
        url="https://hooks.example.com/in/orders",
        scheme="https",
        host="hooks.example.com",
        port=443,
        origin="https://hooks.example.com",
        masked="https://hooks.example.com/in/orders",
    )


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTPS://Example.COM", "https://example.com"),
        ("https://example.com:443/x", "https://example.com"),
        ("http://example.com:80/x", "http://example.com"),
        ("https://example.com:80/x", "https://example.com:80"),
        ("https://example.com:8443/x?y", "https://example.com:8443"),
        ("https://[2606:4700::1111]:8443/", "https://[2606:4700::1111]:8443"),
        ("https://1.1.1.1/", "https://1.1.1.1"),
        ("http://receiver:8080/hook", "http://receiver:8080"),
        ("https://a-1.b.example/", "https://a-1.b.example"),
        ("https://r3---sn-x.example.com/", "https://r3---sn-x.example.com"),
        ("https://xn--fa-hia.de/", "https://xn--fa-hia.de"),
        ("https://1a.example/", "https://1a.example"),
    ],
)
def test_ordinary_urls_are_accepted(url: str, origin: str) -> None:
    assert check(url).origin == origin


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.000.000.001",
        "127.0.0.0x1",
        "1.1",
        "1.1.1.1.1",
        "256.1.1.1",
        "0",
        "0.0.0.0",  # noqa: S104 - nothing is bound to it
        "[::]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "foo.localhost",
        "ip6-localhost",
        "localhost.localdomain",
        "127.0.0.1",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "[fe80::1%eth0]",
        "[1.1.1.1]",
        "[v1.x]",
        "[]",
        "::1",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "metadata.google.internal",
        "%31%32%37.0.0.1",
        "example%2ecom",
        "a.com\\@127.0.0.1",
        "127.0.0.1\\@a.com",
        "a.com@127.0.0.1",
        "a.com:80@127.0.0.1:2222",
        "u:p@a.com",
        "@a.com",
        "a..com",
        ".a.com",
        "a.com.",
        "-a.com",
        "a-.com",
        "a_b.com",
        "a*b.com",
        "a,b.com",
        "a" * 64 + ".com",
        ".".join(["a" * 63] * 4),
        "xn--",
        "xn--a",
        "xn--a-.com",
        "faß.de",
        "аpple.com",  # noqa: RUF001 - a Cyrillic a
        "①②⑦.⓪.⓪.①",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "127。0。0。1",
        "",
    ],
)
def test_hosts_that_hide_or_cannot_be_looked_up_are_refused(host: str) -> None:
    refused(f"http://{host}/")
    refused(f"http://{host}:8080/hook")


@pytest.mark.parametrize(
    "url",
    [
        "",
        None,
        1,
        b"https://example.com/",
        [],
        "http:///127.0.0.1/",
        "http:127.0.0.1/",
        "http:/127.0.0.1",
        "//example.com/",
        "/hook",
        "example.com",
        "example.com:8080/hook",
        "http://",
        "http://?",
        "http://@/",
        "http://:80/",
        "file:///etc/passwd",
        "file://example.com/etc/passwd",
        "gopher://example.com/",
        "ftp://example.com/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "http+unix://x/",
        "HTTP:",
        "https://example.com/#frag",
        "https://example.com/#",
        "http://127.0.0.1#@a.com/",
        "http://127.0.0.1?@a.com/",
        "https://example.com\\x",
        " https://example.com/",
        "https://example.com/ ",
        "https://example.com/\t",
        "https://example.com/a b",
        "https://example.com/\r\nX: y",
        "https://exa\nmple.com/",
        "https://example.com/\x00",
        "https://example.com/\x7f",
        "https:// example.com/",
        "https://example.com/é",
        "https://example.com/" + "a" * 2029,
        "https://example.com/" + '"' * 700,  # percent-encoded it is longer than allowed
    ],
)
def test_what_is_no_url_of_an_endpoint_is_refused(url: object) -> None:
    refused(url)


@pytest.mark.parametrize(
    "port", ["0", "00", "080", "65536", "99999", "123456", "-1", "", "٨٠", "8a"]
)
def test_ports_outside_1_to_65535_are_refused(port: str) -> None:
    refused(f"http://example.com:{port}/")


@pytest.mark.parametrize("port", [1, 22, 25, 2375, 2379, 5432, 6379, 9200, 11211, 27017])
def test_ports_of_other_services_are_refused(port: int) -> None:
    assert f"port {port}" in refused(f"https://example.com:{port}/")


@pytest.mark.parametrize("port", [80, 443, 3000, 5000, 5431, 8000, 8080, 8443, 32768, 65535])
def test_other_ports_are_accepted(port: int) -> None:
    assert check(f"https://example.com:{port}/").port == port


def test_no_port_that_a_system_hands_out_is_forbidden() -> None:
    for port in range(32768, 65536):
        check(f"http://127.0.0.1:{port}/", allow_networks=LOOPBACK)


def test_plain_http_needs_the_setting() -> None:
    assert check_url("https://example.com/", allow_http=False).scheme == "https"
    assert "FENCEPOST_ALLOW_HTTP" in refused("http://example.com/", allow_http=False)
    assert "FENCEPOST_ALLOW_HTTP" in refused("HTTP://example.com/", allow_http=False)


def test_an_allowed_network_opens_its_literals_and_names_the_setting() -> None:
    assert check("http://127.0.0.1:9000/", allow_networks=LOOPBACK).host == "127.0.0.1"
    assert check("http://localhost:9000/", allow_networks=LOOPBACK).host == "localhost"
    check("http://[::ffff:127.0.0.1]/", allow_networks=LOOPBACK)
    refused("http://[::1]:9000/", allow_networks=LOOPBACK)
    refused("http://ip6-localhost:9000/", allow_networks=LOOPBACK)
    refused("http://10.0.0.1/", allow_networks=LOOPBACK)
    refused("http://127.1/", allow_networks=LOOPBACK)
    assert "FENCEPOST_ALLOW_NETWORKS" in refused("http://127.0.0.1:9000/")


def test_a_name_in_another_alphabet_is_told_in_ascii() -> None:
    assert "xn--fa-hia.de" in refused("https://faß.de/hook")
    assert "percent-encode" in refused("https://example.com/größe")


@pytest.mark.parametrize(
    "secret", ["https://user:hunter2@example.com/", "https://example.com:0/hunter2?hunter2"]
)
def test_a_refusal_does_not_repeat_the_url(secret: str) -> None:
    assert "hunter2" not in refused(secret)


def test_the_url_as_it_is_requested_is_canonical() -> None:
    endpoint = check('HTTPS://Example.com/a/../b/%7e%0d%0a"{x}?q=%zz')
    assert endpoint.url == "https://example.com/b/%7E%0D%0A%22%7Bx%7D?q=%25zz"
    assert check("https://example.com").url == "https://example.com"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://example.com/", "https://example.com/"),
        ("https://example.com", "https://example.com"),
        (
            "https://example.com/v1/hooks/order-service",
            "https://example.com/v1/hooks/order-service",
        ),
        (
            "https://example.com/stripe_webhook_receiver",
            "https://example.com/stripe_webhook_receiver",
        ),
        ("https://example.com/hook?token=abc", "https://example.com/hook?***"),
        ("https://example.com/hook?", "https://example.com/hook?***"),
        (
            "https://hooks.slack.example/services/T00000000/B00000000/XxXxXxXxXxXxXxXx",
            "https://hooks.slack.example/services/***/***/***",
        ),
        (
            "https://example.com/0190c5a0-7b6c-7000-8000-000000000000/in",
            "https://example.com/***/in",
        ),
        ("https://example.com/abcdefghijklmnopqrstuvwxyz", "https://example.com/***"),
        ("https://example.com/k%3Dv", "https://example.com/***"),
        ("https://example.com/key=v", "https://example.com/***"),
    ],
)
def test_what_may_be_a_token_is_masked(url: str, masked: str) -> None:
    assert check(url).masked == masked


def test_a_url_does_not_show_in_a_traceback_or_log_by_repr() -> None:
    assert "s3cretToken99" not in repr(check("https://example.com/s3cretToken99"))


@given(st.text())
@example("https://[")
@example("https://[::1")
@example("https://a:b:c/")
@example("\ud800")
@example("https://\ud800.com/")
def test_nothing_but_invalid_input_is_raised(text: str) -> None:
    for url in (text, f"https://{text}", f"https://example.com/{text}", f"http://[{text}]/"):
        try:
            check(url)
        except InvalidInputError as error:
            assert error.field == "url"  # noqa: PT017 - anything else raised fails the test


@given(
    st.text(st.characters(codec="ascii", exclude_characters="#\\", min_codepoint=33)).map(
        lambda text: text.replace("\x7f", "")
    )
)
def test_what_is_accepted_stays_accepted_as_it_is_sent(text: str) -> None:
    try:
        first = check(f"https://example.com/{text}")
    except InvalidInputError:
        return
    second = check(first.url)
    assert second == first
    assert urlsplit(first.url).hostname == "example.com"


def test_hosts_that_need_no_lookup_are_known() -> None:
    assert known_address("127.0.0.1") == "127.0.0.1"
    assert known_address("::FFFF:1.1.1.1") == "1.1.1.1"
    assert known_address("2606:4700:0::1111") == "2606:4700::1111"
    assert known_address("localhost") == "127.0.0.1"
    assert known_address("a.localhost") == "127.0.0.1"
    assert known_address("ip6-localhost") == "::1"
    assert known_address("example.com") is None
    assert known_address("127.1") is None


def test_masking_keeps_the_number_of_segments() -> None:
    assert mask_path("//a//0123456789/") == "//a//***/"
