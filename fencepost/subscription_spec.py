"""What a subscription may be made of, and changed to: every field judged, unknown ones refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost import retry, signing
from fencepost import subscription_values as read
from fencepost.custom_headers import check_headers, check_signature_header
from fencepost.egress import Network
from fencepost.endpoints import Endpoint, check_url
from fencepost.errors import InvalidInputError
from fencepost.lines import check_line
from fencepost.model import Subscription

FIELDS: Final = (
    "name", "url", "event_types", "signature_scheme", "signature_header", "headers",
    "max_attempts", "backoff_base_seconds", "backoff_cap_seconds", "retry_preset",
    "retry_statuses", "no_retry_statuses", "max_in_flight", "rate_limit_per_second", "ordered",
)  # fmt: skip
"""What can be set, by the names of CONTRACT section 7; a new subscription takes ``secret`` too."""

MASK: Final = "••••"
"""Shown in place of a header's value: no header can have it, so it is never saved by mistake."""

LONGEST_NAME: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The part of a subscription that is no secret; the defaults are a new one's."""

    name: str
    event_types: tuple[str, ...] = ("*",)
    signature_scheme: str = "standard"
    signature_header: str | None = None
    max_attempts: int = retry.DEFAULT_MAX_ATTEMPTS
    backoff_base_seconds: float = retry.DEFAULT_BASE.total_seconds()
    backoff_cap_seconds: float = retry.DEFAULT_CAP.total_seconds()
    retry_preset: str | None = None
    retry_statuses: tuple[int, ...] = ()
    no_retry_statuses: tuple[int, ...] = ()
    max_in_flight: int | None = None
    rate_limit_per_second: float | None = None
    ordered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSpec:
    """A subscription that is about to be made."""

    terms: Terms
    endpoint: Endpoint
    headers: Mapping[str, str] = field(repr=False)
    secret: str | None = field(repr=False)
    """Brought along by who moves here with receivers in place; None: a fresh one is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionChange:
    """What a subscription becomes; None for a URL or headers that stay as they are."""

    terms: Terms
    endpoint: Endpoint | None
    headers: Mapping[str, str] | None = field(repr=False)


def read_spec(
    fields: object, *, allow_http: bool, allow_networks: Iterable[Network] = ()
) -> SubscriptionSpec:
    """Judge the fields of a new subscription.

    Args:
        fields: an object: ``name`` and ``url``, and as many of ``FIELDS`` and ``secret`` as are
            not to have their defaults.
        allow_http: ``FENCEPOST_ALLOW_HTTP``.
        allow_networks: ``FENCEPOST_ALLOW_NETWORKS``.

    Raises:
        InvalidInputError: names the first field that cannot be accepted.
    """
    given = _check_names(fields, (*FIELDS, "secret"))
    name = _name(given.get("name"))
    endpoint = check_url(given.get("url"), allow_http=allow_http, allow_networks=allow_networks)
    terms = _terms(given, Terms(name=name))
    headers = _headers(given.get("headers"), terms)
    secret = given.get("secret")
    if secret is not None:
        if not isinstance(secret, str):
            raise InvalidInputError("secret", "secret must be text")
        signing.check_secret(secret, terms.signature_scheme)
    return SubscriptionSpec(terms=terms, endpoint=endpoint, headers=headers, secret=secret)


def read_change(
    fields: object,
    current: Subscription,
    *,
    allow_http: bool,
    allow_networks: Iterable[Network] = (),
) -> SubscriptionChange:
    """Judge the fields of a PATCH: what is left out stays, what is null gets its default.

    A URL or headers that come back masked, as they are shown, stay as well.

    Args:
        fields: an object with some of ``FIELDS``; ``headers`` replaces all of them.
        current: the subscription as it is.
        allow_http: ``FENCEPOST_ALLOW_HTTP``.
        allow_networks: ``FENCEPOST_ALLOW_NETWORKS``.

    Raises:
        InvalidInputError: names the first field that cannot be accepted.
    """
    given = _check_names(fields, FIELDS)
    name = _name(given["name"]) if "name" in given else current.name
    endpoint = None
    if given.get("url", current.endpoint_masked) != current.endpoint_masked:
        endpoint = check_url(given["url"], allow_http=allow_http, allow_networks=allow_networks)
    terms = _terms(
        given,
        Terms(
            name=name,
            event_types=current.event_types,
            signature_scheme=current.signature_scheme,
            signature_header=current.signature_header,
            max_attempts=current.max_attempts,
            backoff_base_seconds=current.backoff_base_seconds,
            backoff_cap_seconds=current.backoff_cap_seconds,
            retry_preset=current.retry_preset,
            retry_statuses=current.retry_statuses,
            no_retry_statuses=current.no_retry_statuses,
            max_in_flight=current.max_in_flight,
            rate_limit_per_second=current.rate_limit_per_second,
            ordered=current.ordered,
        ),
    )
    shown = dict.fromkeys(current.header_names, MASK)
    if given.get("headers", shown) != shown:
        headers = _headers(given["headers"], terms)
        return SubscriptionChange(terms=terms, endpoint=endpoint, headers=headers)
    taken = signing.header_name(terms.signature_scheme, terms.signature_header).lower()
    if taken in map(str.lower, current.header_names):
        raise InvalidInputError(
            "signature_header", f"signature_header: {taken} is a custom header already"
        )
    return SubscriptionChange(terms=terms, endpoint=endpoint, headers=None)


def _check_names(fields: object, known: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(fields, Mapping):
        raise InvalidInputError("body", "give an object with the subscription's fields")
    for name in fields:
        if name not in known:
            raise InvalidInputError(str(name), f"there is no field {str(name)[:40]!r} to set here")
    return fields


def _name(value: object) -> str:
    return check_line(value, field="name", longest=LONGEST_NAME)


def _terms(given: Mapping[str, Any], was: Terms) -> Terms:
    fresh = Terms(name=was.name)

    def wanted(name: str) -> Any:  # noqa: ANN401 - a field of any type
        """What the field is to be: as given, its default for null, or as it was."""
        value = given.get(name)
        return value if value is not None else getattr(fresh if name in given else was, name)

    scheme = wanted("signature_scheme")
    if scheme not in signing.SCHEMES:
        choices = ", ".join(signing.SCHEMES)
        raise InvalidInputError("signature_scheme", f"signature_scheme must be one of {choices}")
    preset = read.preset(given.get("retry_preset", was.retry_preset))
    base = read.seconds("backoff_base_seconds", wanted("backoff_base_seconds"))
    cap = read.seconds("backoff_cap_seconds", wanted("backoff_cap_seconds"))
    if cap < base:
        raise InvalidInputError(
            "backoff_cap_seconds", "backoff_cap_seconds must not be less than backoff_base_seconds"
        )
    retried = read.statuses("retry_statuses", wanted("retry_statuses"))
    final = read.statuses("no_retry_statuses", wanted("no_retry_statuses"))
    if both := set(retried) & set(final):
        raise InvalidInputError(
            "no_retry_statuses", f"no_retry_statuses: {min(both)} is in retry_statuses too"
        )
    return Terms(
        name=was.name,
        event_types=read.event_types(wanted("event_types")),
        signature_scheme=scheme,
        signature_header=_signature_header(given, was, scheme),
        max_attempts=_attempts(given, was, preset),
        backoff_base_seconds=base,
        backoff_cap_seconds=cap,
        retry_preset=preset,
        retry_statuses=retried,
        no_retry_statuses=final,
        max_in_flight=read.in_flight(given.get("max_in_flight", was.max_in_flight)),
        rate_limit_per_second=read.rate(
            given.get("rate_limit_per_second", was.rate_limit_per_second)
        ),
        ordered=read.flag("ordered", wanted("ordered")),
    )


def _signature_header(given: Mapping[str, Any], was: Terms, scheme: str) -> str | None:
    chosen = given.get("signature_header", was.signature_header)
    if scheme == "standard":
        if given.get("signature_header") is not None:
            raise InvalidInputError(
                "signature_header", "signature_header: the scheme 'standard' has no choice of it"
            )
        return None
    if chosen is None:
        return None
    check_signature_header(chosen)
    return str(chosen)


def _headers(value: object, terms: Terms) -> Mapping[str, str]:
    header = signing.header_name(terms.signature_scheme, terms.signature_header)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInputError("headers", "headers must be an object of names and values")
    check_headers(value, signature_header=header)
    return dict(value)


def _attempts(given: Mapping[str, Any], was: Terms, preset: str | None) -> int:
    value = given.get("max_attempts")
    if value is None:
        if preset is not None:
            return retry.PRESETS[preset].max_attempts
        stays = "max_attempts" not in given and was.retry_preset is None
        return was.max_attempts if stays else retry.DEFAULT_MAX_ATTEMPTS
    found = read.attempts(value)
    if preset is not None and found != retry.PRESETS[preset].max_attempts:
        raise InvalidInputError(
            "max_attempts",
            f"max_attempts: {preset} makes {retry.PRESETS[preset].max_attempts} attempts;"
            " leave it out, or set retry_preset to null",
        )
    return found
