"""Which headers a subscription may add."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.custom_headers import check_headers, check_signature_header
from fencepost.errors import InvalidInputError


def refused(headers: object, **options: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        check_headers(headers, **options)  # type: ignore[arg-type]
    assert caught.value.field == "headers"
    return str(caught.value)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer abc.def"},
        {"X-Api-Key": "k", "x-tenant": "a b  c", "!#$%&'*+.^_`|~1-": "~!"},
        {"X-Empty": ""},
        {"a" * 64: "x"},
        {"Accept": "application/json", "X-Amz-Meta": "1", "X-Goog-Meta": "2"},
    ],
)
def test_ordinary_headers_are_accepted(headers: dict[str, str]) -> None:
    check_headers(headers)


@pytest.mark.parametrize(
    "value",
    [
        "a\r\nX-Evil: 1",
        "a\n",
        "\n",
        " a",
        "a ",
        " ",
        "\t",
        "a\tb",
        "a\x00b",
        "\x7f",
        "é",
        "日本",
        1,
        None,
    ],
)
def test_values_that_cannot_be_sent_as_they_are_are_refused(value: object) -> None:
    assert "X-Key" in refused({"X-Key": value})


@pytest.mark.parametrize(
    "name", ["", "x y", "x:", "x\r\n", "x\n", "é", "x/y", "(x)", '"x"', "\x00", "a" * 65, 1, None]
)
def test_names_that_are_no_tokens_are_refused(name: object) -> None:
    refused({name: "v"})


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "Content-Length",
        "Content-Type",
        "Content-Encoding",
        "Content-Anything",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "Expect",
        "TE",
        "Trailer",
        "Upgrade",
        "Proxy-Authorization",
        "Proxy-Connection",
        "User-Agent",
        "Accept-Encoding",
        "Cookie",
        "Date",
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "webhook-anything",
        "Fencepost-Token",
        "Fencepost-Delivery",
        "Fencepost-Signature",
    ],
)
def test_reserved_headers_are_refused_in_any_case(name: str) -> None:
    for spelled in (name, name.upper(), name.lower(), name.swapcase()):
        assert spelled in refused({spelled: "v"})


def test_the_chosen_signature_header_is_reserved() -> None:
    check_headers({"Stripe-Signature": "v"})
    refused({"sTRIPE-sIGNATURE": "v"}, signature_header="Stripe-Signature")
    check_headers({"X-Other": "v"}, signature_header="Stripe-Signature")


def test_a_name_twice_in_another_case_is_refused() -> None:
    assert "twice" in refused({"X-Key": "1", "x-key": "2"})


def test_twenty_headers_are_the_most() -> None:
    check_headers({f"x-{number}": "v" for number in range(20)})
    refused({f"x-{number}": "v" for number in range(21)})


def test_four_kilobytes_together_are_the_most() -> None:
    check_headers({"x": "v" * (4096 - 5)})
    refused({"x": "v" * (4096 - 4)})


def test_a_refusal_does_not_repeat_the_value() -> None:
    assert "hunter2" not in refused({"X-Key": "hunter2\n"})


@pytest.mark.parametrize("headers", [None, [], "x", 1, [("a", "b")]])
def test_what_is_no_object_is_refused(headers: object) -> None:
    refused(headers)


@given(st.dictionaries(st.text(), st.text()))
@example({"\ud800": "v"})
@example({"x": "\ud800"})
def test_nothing_but_invalid_input_is_raised(headers: dict[str, str]) -> None:
    try:
        check_headers(headers)
    except InvalidInputError:
        return
    for name, value in headers.items():
        assert f"{name}: {value}".encode("ascii").isascii()


@pytest.mark.parametrize("name", ["Stripe-Signature", "X-Hub-Signature-256", "Fencepost-Signature"])
def test_a_signature_header_is_chosen_freely(name: str) -> None:
    check_signature_header(name)


@pytest.mark.parametrize(
    "name", ["", "x y", "a" * 65, "Host", "content-type", "webhook-id", "Fencepost-Token", None, 7]
)
def test_a_signature_header_has_no_other_meaning(name: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_signature_header(name)
    assert caught.value.field == "signature_header"
