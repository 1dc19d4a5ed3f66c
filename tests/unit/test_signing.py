"""Signatures are those that the receivers' own libraries accept."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Any

import pytest
import standardwebhooks
import stripe
import svix.webhooks
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.exceptions import WebhookVerificationError

from fencepost import signing
from fencepost.errors import InvalidInputError

BODY = (
    '{"type":"invoice.paid","timestamp":"2023-11-14T22:13:20Z",'
    '"data":{"id":"inv_1","amount":1999,"note":"café"}}'
).encode()
MESSAGE_ID = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"
TIMESTAMP = 1700000000
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PREVIOUS = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="


def sign(scheme: str, *secrets: str, body: bytes = BODY, **changes: Any) -> tuple[str, str]:
    facts = {"message_id": MESSAGE_ID, "timestamp": TIMESTAMP, **changes}
    return signing.sign(scheme, secrets=secrets or (SECRET,), body=body, **facts)


def test_standard_gives_the_known_vector() -> None:
    first = "v1,rltEwPpGkdksZN0A6fam5u5JCSN46bkdMUcj4Cey4MQ="
    second = "v1,7MxFm9W47Afi/nQqbwWr12Ce08F+EfNvHIYWJlSGYeM="
    assert sign("standard") == ("webhook-signature", first)
    assert sign("standard", SECRET, PREVIOUS) == ("webhook-signature", f"{first} {second}")


@pytest.mark.parametrize(
    ("message_id", "timestamp", "body", "secret", "value"),
    [
        (
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            b'{"test": 2432232314}',
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1649367553,
            b'{"email":"test@example.com","username":"test_user"}',
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
    ],
)
def test_standard_gives_the_specifications_vectors(
    message_id: str, timestamp: int, body: bytes, secret: str, value: str
) -> None:
    signed = sign("standard", secret, body=body, message_id=message_id, timestamp=timestamp)
    assert signed == ("webhook-signature", value)


def test_stripe_gives_the_known_vector() -> None:
    first = "v1=0eaddc8af57e73ba0bf9b758385045f13e76869b662157b8f79b96b473fc8a85"
    second = "v1=aa158e781a0cb731385e9ce2a85e2a8020bac93d85ec788aacc1b4b5a3d8cb16"
    assert sign("stripe") == ("Fencepost-Signature", f"t=1700000000,{first}")
    assert sign("stripe", SECRET, PREVIOUS)[1] == f"t=1700000000,{first},{second}"


def test_prefixed_signs_the_written_timestamp() -> None:
    digest = hmac.new(SECRET.encode(), b"t=1700000000." + BODY, hashlib.sha256).hexdigest()
    assert sign("prefixed") == ("Fencepost-Signature", f"t=1700000000,v1={digest}")
    assert sign("prefixed", SECRET, PREVIOUS)[1].startswith(f"t=1700000000,v1={digest},v1=")


@pytest.mark.parametrize("library", [standardwebhooks.Webhook, svix.webhooks.Webhook])
@pytest.mark.parametrize("receivers_secret", [SECRET, PREVIOUS])
def test_standard_verifies_with_either_secret(library: Any, receivers_secret: str) -> None:
    now = int(time.time())
    name, value = sign("standard", SECRET, PREVIOUS, timestamp=now)
    headers = {"webhook-id": MESSAGE_ID, "webhook-timestamp": str(now), name: value}
    library(receivers_secret).verify(BODY, headers)
    for changed in (BODY + b" ", BODY.replace(b"1999", b"9991")):
        with pytest.raises(WebhookVerificationError):
            library(receivers_secret).verify(changed, headers)
    with pytest.raises(WebhookVerificationError):
        library(receivers_secret).verify(BODY, {**headers, "webhook-id": "another"})


@pytest.mark.parametrize("receivers_secret", [SECRET, PREVIOUS])
def test_stripe_verifies_with_either_secret(receivers_secret: str) -> None:
    _, value = sign("stripe", SECRET, PREVIOUS, timestamp=int(time.time()))
    assert stripe.WebhookSignature.verify_header(BODY, value, receivers_secret, 300)
    for changed in (BODY + b" ", BODY.replace(b"1999", b"9991")):
        with pytest.raises(stripe.SignatureVerificationError):
            stripe.WebhookSignature.verify_header(changed, value, receivers_secret, 300)


@given(body=st.text(max_size=500))
def test_every_text_body_verifies(body: str) -> None:
    now, raw = int(time.time()), body.encode("utf-8", "replace")
    name, value = sign("standard", body=raw, timestamp=now)
    headers = {"webhook-id": MESSAGE_ID, "webhook-timestamp": str(now), name: value}
    standardwebhooks.Webhook(SECRET).verify(raw, headers, json_parse=False)
    _, value = sign("stripe", body=raw, timestamp=now)
    assert stripe.WebhookSignature.verify_header(raw, value, SECRET, 300)


def test_binary_bodies_are_signed_as_they_are() -> None:
    body = bytes(range(256))
    digest = hmac.new(SECRET.encode(), b"1700000000." + body, hashlib.sha256).hexdigest()
    assert sign("stripe", body=body)[1] == f"t=1700000000,v1={digest}"


def test_the_subscription_names_the_header_except_in_standard() -> None:
    assert sign("stripe", header="Stripe-Signature")[0] == "Stripe-Signature"
    assert sign("prefixed", header="X-Signature")[0] == "X-Signature"
    assert sign("standard", header="X-Signature")[0] == "webhook-signature"


def test_every_default_header_is_known() -> None:
    assert set(signing.DEFAULT_HEADERS) == set(signing.SCHEMES)


def test_nothing_is_sent_unsigned() -> None:
    with pytest.raises(ValueError, match="at least one secret"):
        signing.sign("standard", secrets=(), message_id="a", timestamp=1, body=b"")
    with pytest.raises(ValueError, match="no signature scheme"):
        sign("none")
    with pytest.raises(ValueError, match="cannot sign"):
        sign("standard", "a secret of plain text, long enough")


def test_a_generated_secret_serves_every_scheme() -> None:
    secret = signing.generate_secret()
    assert secret != signing.generate_secret()
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    for scheme in signing.SCHEMES:
        signing.check_secret(secret, scheme)


@pytest.mark.parametrize("size", [24, 64])
def test_standard_accepts_keys_up_to_its_borders(size: int) -> None:
    signing.check_secret("whsec_" + base64.b64encode(bytes(size)).decode())


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        base64.b64encode(bytes(32)).decode(),
        "whsec_" + base64.b64encode(bytes(8)).decode(),
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        "whsec_" + base64.b64encode(bytes(32)).decode().rstrip("="),
        "whsec_" + base64.b64encode(bytes(32)).decode() + "\n",
        "whsec_" + base64.urlsafe_b64encode(b"\xff" * 32).decode(),
        "whsec_not*base64*not*base64*not*base64*",
        "whsec_" + "é" * 40,
    ],
)
def test_standard_refuses_other_secrets_without_quoting_them(secret: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        signing.check_secret(secret)
    assert caught.value.field == "secret"
    assert not secret.removeprefix("whsec_") or secret not in str(caught.value)


@pytest.mark.parametrize("scheme", ["stripe", "prefixed"])
def test_the_others_take_visible_text(scheme: str) -> None:
    signing.check_secret("c0ffee" * 4, scheme)
    signing.check_secret("~" * 128, scheme)
    for secret in ("", "x" * 23, "x" * 129, "x" * 23 + " ", "x" * 24 + "\n", "é" * 24):
        with pytest.raises(InvalidInputError):
            signing.check_secret(secret, scheme)
