"""The sealed columns of a subscription, each bound to the row it stands in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from fencepost import signing
from fencepost.endpoints import Endpoint
from fencepost.errors import InvalidInputError
from fencepost.keyring import Keyring


def endpoint(keyring: Keyring, subscription_id: UUID, found: Endpoint | None) -> dict[str, Any]:
    """Give the columns of a URL; all None where it stays as it is."""
    if found is None:
        return dict.fromkeys(("endpoint_sealed", "endpoint_origin", "endpoint_masked"))
    context = ("endpoint", str(subscription_id))
    return {
        "endpoint_sealed": keyring.seal(found.url.encode(), context=context),
        "endpoint_origin": found.origin,
        "endpoint_masked": found.masked,
    }


def headers(
    keyring: Keyring, subscription_id: UUID, found: Mapping[str, str] | None
) -> dict[str, Any]:
    """Give the columns of custom headers; all None where they stay as they are."""
    if found is None:
        return {"headers_sealed": None, "header_names": None}
    text = json.dumps(dict(found), separators=(",", ":")).encode()
    context = ("headers", str(subscription_id))
    return {
        "headers_sealed": keyring.seal(text, context=context) if found else None,
        "header_names": list(found),
    }


def secret(keyring: Keyring, subscription_id: UUID, secret_id: UUID, text: str) -> bytes:
    """Seal a signing secret."""
    return keyring.seal(text.encode(), context=_secret_context(subscription_id, secret_id))


def check_secrets(
    keyring: Keyring, subscription_id: UUID, rows: Iterable[tuple[UUID, bytes]], scheme: str
) -> None:
    """Make sure that secrets in use can sign in another scheme.

    Args:
        keyring: opens them.
        subscription_id: whose they are.
        rows: their ids and sealed forms.
        scheme: the one that is wanted.

    Raises:
        InvalidInputError: ``signature_scheme``.
    """
    for secret_id, sealed in rows:
        text = keyring.open(sealed, context=_secret_context(subscription_id, secret_id)).decode()
        try:
            signing.check_secret(text, scheme)
        except InvalidInputError:
            raise InvalidInputError(
                "signature_scheme",
                f"signature_scheme: the present secret cannot sign as {scheme!r};"
                " rotate it, and revoke the old one, first",
            ) from None


def _secret_context(subscription_id: UUID, secret_id: UUID) -> tuple[str, ...]:
    return ("signing-secret", str(subscription_id), str(secret_id))
