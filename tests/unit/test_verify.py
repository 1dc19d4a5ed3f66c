"""A receiver's verify accepts what we sign, and judges as the libraries of the schemes do."""

from __future__ import annotations

import hmac
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any

import pytest
import standardwebhooks
import stripe
import svix.webhooks
from django.http.request import HttpHeaders  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.exceptions import WebhookVerificationError
from starlette.datastructures import Headers as StarletteHeaders
from svix.webhooks import WebhookVerificationError as SvixVerificationError
from werkzeug.datastructures import EnvironHeaders

from fencepost import signing
from fencepost.receiver import (
    MalformedHeaderError,
    MissingHeaderError,
    NoMatchError,
    RefusedError,
    TooNewError,
    TooOldError,
    signatures,
    verify,
)

BODY = '{"amount":1999,"note":"café"}'.encode()
ID = "0193b6f2-7c1e-7000-8000-000000000001"
NOW = 1_700_000_000
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PREVIOUS = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
OTHER = signing.generate_secret()


def signed(
    scheme: str = "standard",
    *secrets: str,
    body: bytes = BODY,
    at: int = NOW,
    message_id: str = ID,
    header: str | None = None,
) -> dict[str, str]:
    """The headers of a request as we send it."""
    name, value = signing.sign(
        scheme,
        secrets=secrets or (SECRET,),
        message_id=message_id,
        timestamp=at,
        body=body,
        header=header,
    )
    return {"webhook-id": message_id, "webhook-timestamp": str(at), name: value}


def signature_header(scheme: str) -> str:
    return signing.header_name(scheme, None)


@pytest.fixture(params=signing.SCHEMES)
def scheme(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_what_we_sign_is_accepted(scheme: Any) -> None:
    verify(BODY, signed(scheme), SECRET, scheme=scheme, now=NOW)
    verify(BODY, signed(scheme, at=int(time.time())), SECRET, scheme=scheme)


@given(body=st.binary(max_size=300), scheme=st.sampled_from(signing.SCHEMES))
def test_every_body_is_accepted_and_no_other(body: bytes, scheme: Any) -> None:
    headers = signed(scheme, body=body)
    verify(body, headers, SECRET, scheme=scheme, now=NOW)
    for other in (body + b"\n", body[:-1] if body else b" ", b" " + body):
        with pytest.raises(NoMatchError):
            verify(other, headers, SECRET, scheme=scheme, now=NOW)


@pytest.mark.parametrize("held", [(SECRET,), (PREVIOUS,), (OTHER, PREVIOUS), (SECRET, OTHER)])
def test_while_secrets_change_either_side_may_hold_several(
    scheme: Any, held: Sequence[str]
) -> None:
    both = signed(scheme, SECRET, PREVIOUS)
    verify(BODY, both, held, scheme=scheme, now=NOW)
    verify(BODY, both, iter(held), scheme=scheme, now=NOW)
    with pytest.raises(NoMatchError):
        verify(BODY, both, OTHER, scheme=scheme, now=NOW)


def test_one_scheme_does_not_pass_for_another(scheme: Any) -> None:
    for other in ("stripe", "prefixed"):
        headers = {**signed(other), **signed("standard")}
        if scheme in (other, "standard"):
            verify(BODY, headers, SECRET, scheme=scheme, now=NOW)
        else:
            with pytest.raises(NoMatchError):
                verify(BODY, headers, SECRET, scheme=scheme, now=NOW)


def test_the_subscriptions_own_header_is_read() -> None:
    headers = signed("stripe", header="X-Signature")
    verify(BODY, headers, SECRET, scheme="stripe", header="x-signature", now=NOW)
    with pytest.raises(MissingHeaderError, match="Fencepost-Signature"):
        verify(BODY, headers, SECRET, scheme="stripe", now=NOW)


def test_the_time_may_be_off_as_far_as_tolerated_on_either_side(scheme: Any) -> None:
    headers = signed(scheme)
    for now in (NOW + 300, NOW - 300):
        verify(BODY, headers, SECRET, scheme=scheme, now=now)
    with pytest.raises(TooOldError, match="signed 301 seconds ago"):
        verify(BODY, headers, SECRET, scheme=scheme, now=NOW + 301)
    with pytest.raises(TooNewError, match="signed 301 seconds in the future"):
        verify(BODY, headers, SECRET, scheme=scheme, now=NOW - 301)
    minute = timedelta(minutes=1)
    with pytest.raises(TooOldError):
        verify(BODY, headers, SECRET, scheme=scheme, now=NOW + 60.5, tolerance=minute)


def test_only_what_is_authentic_is_called_too_old(scheme: Any) -> None:
    with pytest.raises(NoMatchError):
        verify(BODY, signed(scheme), OTHER, scheme=scheme, now=NOW + 10_000)


@pytest.mark.parametrize("offset", [0, 290, 310, -290, -310])
def test_the_libraries_judge_alike(offset: int) -> None:
    """Stripe's alone accepts what is signed in the future, for ever."""
    at = int(time.time()) - offset
    standard, stripes = signed(at=at), signed("stripe", at=at)
    is_fine = abs(offset) < 300

    def accepts(judge: Any, *args: Any, **options: Any) -> bool:
        try:
            judge(*args, **options)
        except (
            RefusedError,
            WebhookVerificationError,
            SvixVerificationError,
            stripe.SignatureVerificationError,
        ):
            return False
        return True

    assert accepts(verify, BODY, standard, SECRET) == is_fine
    assert accepts(verify, BODY, stripes, SECRET, scheme="stripe") == is_fine
    assert accepts(standardwebhooks.Webhook(SECRET).verify, BODY, standard) == is_fine
    assert accepts(svix.webhooks.Webhook(SECRET).verify, BODY, standard) == is_fine
    value = stripes["Fencepost-Signature"]
    judged = accepts(stripe.WebhookSignature.verify_header, BODY, value, SECRET, 300)
    assert judged == (is_fine or offset < 0)


def test_what_the_libraries_sign_is_accepted() -> None:
    at = datetime.fromtimestamp(NOW, UTC)
    for library in (standardwebhooks.Webhook, svix.webhooks.Webhook):
        value = library(SECRET).sign(ID, at, BODY.decode())
        headers = {"webhook-id": ID, "webhook-timestamp": str(NOW), "webhook-signature": value}
        verify(BODY, headers, SECRET, now=NOW)


def carriers() -> Iterator[Any]:
    headers = signed()
    yield headers
    yield {name.upper(): value for name, value in headers.items()}
    yield list(headers.items())
    yield headers.items()
    message = Message()
    for name, value in headers.items():
        message[name.title()] = value
    yield message
    environ = {f"HTTP_{name.upper().replace('-', '_')}": text for name, text in headers.items()}
    yield EnvironHeaders(environ)
    yield HttpHeaders(environ)
    yield StarletteHeaders(headers)


@pytest.mark.parametrize("headers", [pytest.param(h, id=type(h).__name__) for h in carriers()])
def test_headers_come_as_frameworks_have_them(headers: Any) -> None:
    verify(BODY, headers, SECRET, now=NOW)


def test_a_header_that_is_missing_is_named(scheme: Any) -> None:
    needed = {signature_header(scheme)}
    if scheme == "standard":
        needed |= {"webhook-id", "webhook-timestamp"}
    for name in needed:
        headers = {key: value for key, value in signed(scheme).items() if key != name}
        with pytest.raises(MissingHeaderError, match=name):
            verify(BODY, headers, SECRET, scheme=scheme, now=NOW)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-timestamp", ""),
        ("webhook-timestamp", "now"),
        ("webhook-timestamp", "1700000000.0"),
        ("webhook-timestamp", "-1700000000"),
        ("webhook-timestamp", " 1700000000"),
        ("webhook-timestamp", "1700000000\n"),
        ("webhook-timestamp", "\uff11700000000"),
        ("webhook-timestamp", "9" * 400),
        ("webhook-signature", ""),
        ("webhook-signature", "v1"),
        ("webhook-signature", "v2,AAAA"),
        ("webhook-signature", "V1,AAAA"),
        ("webhook-id", ""),
        ("webhook-id", "a b"),
        ("webhook-id", "a" * 256),
        ("webhook-id", "é"),
    ],
)
def test_a_header_that_cannot_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(MalformedHeaderError, match=name):
        verify(BODY, {**signed(), name: value}, SECRET, now=NOW)


@pytest.mark.parametrize(
    "value", ["", "v1=00", "t=1,t=2,v1=00", "t=,v1=00", "t=1.5,v1=00", "t=1700000000", "t=1;v1=0"]
)
def test_a_stripe_header_that_cannot_be_read_is_malformed(value: str) -> None:
    headers = {"fencepost-signature": value}
    with pytest.raises(MalformedHeaderError, match="Fencepost-Signature"):
        verify(BODY, headers, SECRET, scheme="stripe", now=NOW)


def test_a_header_that_came_twice_is_refused() -> None:
    headers = [*signed().items(), ("Webhook-Id", "another")]
    with pytest.raises(MalformedHeaderError, match="webhook-id came 2 times"):
        verify(BODY, headers, SECRET, now=NOW)


@pytest.mark.parametrize("garbage", ["v1,", "v1,é\udcff", "v1,%%%", "v2,AAAA", "x", ""])
def test_garbage_beside_a_good_signature_does_no_harm(garbage: str) -> None:
    good = signed()
    for value in (
        f"{garbage} {good['webhook-signature']}",
        f"{good['webhook-signature']} {garbage}",
    ):
        verify(BODY, {**good, "webhook-signature": value}, SECRET, now=NOW)
    if garbage.startswith("v1,"):
        with pytest.raises(NoMatchError):
            verify(BODY, {**good, "webhook-signature": garbage}, SECRET, now=NOW)


def test_a_dot_cannot_be_moved_from_the_body_into_the_id() -> None:
    """Both sign ``a.1700000000.1700000000.5``; the library takes either, and so acts twice."""
    body = f"{NOW}.5".encode()
    headers = signed(body=body, message_id="a")
    moved = {**headers, "webhook-id": f"a.{NOW}"}
    verify(body, headers, SECRET, now=NOW)
    with pytest.raises(MalformedHeaderError, match="webhook-id"):
        verify(b"5", moved, SECRET, now=NOW)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "secret", SECRET.removeprefix("whsec_"), SECRET + "\n", "whsec_é"]
)
def test_a_secret_of_ours_that_cannot_be_one_is_no_fault_of_the_request(secret: str) -> None:
    with pytest.raises(ValueError, match="scheme 'standard'") as caught:
        verify(BODY, signed(), [SECRET, secret], now=NOW)
    assert not isinstance(caught.value, RefusedError)
    assert SECRET.removeprefix("whsec_") not in str(caught.value)


def test_no_secret_and_no_scheme_accept_nothing() -> None:
    with pytest.raises(ValueError, match="no secret"):
        verify(BODY, signed(), [], now=NOW)
    with pytest.raises(ValueError, match="24 to 128"):
        verify(BODY, signed("stripe"), "", scheme="stripe", now=NOW)
    with pytest.raises(ValueError, match="no signature scheme"):
        verify(BODY, signed(), SECRET, scheme="none", now=NOW)  # type: ignore[arg-type]


@given(
    headers=st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]),
        st.text(max_size=40) | st.from_regex(r"(v1,[A-Za-z0-9+/=]{0,44} ?){1,3}"),
    ),
    body=st.binary(max_size=20),
)
def test_no_bytes_of_a_stranger_do_anything_but_refuse(
    headers: dict[str, str], body: bytes
) -> None:
    with pytest.raises(RefusedError) as caught:
        verify(body, headers, SECRET, now=NOW)
    assert caught.value.status in (400, 401)


def test_every_signature_is_compared_whichever_of_them_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []
    compare = hmac.compare_digest

    def counting(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return bool(compare(first, second))

    monkeypatch.setattr(hmac, "compare_digest", counting)
    verify(BODY, signed("standard", SECRET, PREVIOUS), (SECRET, PREVIOUS), now=NOW)
    assert len(compared) == 4


def test_the_file_needs_the_standard_library_alone() -> None:
    program = f"""
import runpy, sys
names = runpy.run_path({signatures.__file__!r})
names["verify"]({BODY!r}, {signed()!r}, {SECRET!r}, now={NOW})
assert not [name for name in sys.modules if name.split(".")[0] in ("fencepost", "psycopg")]
"""
    isolated = [sys.executable, "-I", "-S", "-c", program]
    subprocess.run(isolated, check=True, cwd="/")
