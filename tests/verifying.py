"""Signatures, judged as a receiver judges them: by the library of its scheme, and by ours."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping

import standardwebhooks
import stripe
import svix.webhooks
from standardwebhooks.exceptions import WebhookVerificationError

from fencepost.receiver import RefusedError, verify
from receiver import Received

TOLERANCE = 300
"""Seconds that a signature's time may be off, as the libraries have it."""


def verify_standard(received: Received, secret: str) -> None:
    verify(received.body, received.headers, secret, now=received.at)
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    headers = {name: received.header(name) for name in names}
    if is_text(received.body):
        standardwebhooks.Webhook(secret).verify(received.body, headers, json_parse=False)
        svix.webhooks.Webhook(secret).verify(received.body, headers)
        return
    # Both libraries take text alone; of other bodies the specification says what is signed.
    id_, timestamp, signature = headers.values()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{id_}.{timestamp}.".encode() + received.body, "sha256")
    assert f"v1,{base64.b64encode(digest).decode()}" in signature.split(" ")


def verify_stripe(received: Received, secret: str) -> None:
    verify(received.body, received.headers, secret, scheme="stripe", now=received.at)
    value = received.header("Fencepost-Signature")
    if is_text(received.body):
        stripe.WebhookSignature.verify_header(received.body, value, secret, TOLERANCE)
        return
    _verify_hex(value, lambda timestamp: f"{timestamp}.".encode() + received.body, secret)


def verify_prefixed(received: Received, secret: str) -> None:
    verify(received.body, received.headers, secret, scheme="prefixed", now=received.at)
    value = received.header("Fencepost-Signature")
    _verify_hex(value, lambda timestamp: f"t={timestamp}.".encode() + received.body, secret)


VERIFIERS: Mapping[str, Callable[[Received, str], None]] = {
    "standard": verify_standard,
    "stripe": verify_stripe,
    "prefixed": verify_prefixed,
}

REFUSALS = (
    AssertionError,
    RefusedError,
    WebhookVerificationError,
    stripe.SignatureVerificationError,
)
"""What they raise."""


def is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _verify_hex(value: str, signed: Callable[[str], bytes], secret: str) -> None:
    parts = [part.split("=", 1) for part in value.split(",")]
    (timestamp,) = [text for name, text in parts if name == "t"]
    digest = hmac.new(secret.encode(), signed(timestamp), hashlib.sha256).hexdigest()
    assert digest in [text for name, text in parts if name == "v1"]
