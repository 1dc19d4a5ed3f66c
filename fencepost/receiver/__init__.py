"""The receiver's half: know who sent a request, and act once however often it comes."""

from fencepost.receiver.signatures import (
    MalformedHeaderError,
    MissingHeaderError,
    NoMatchError,
    RefusedError,
    TooNewError,
    TooOldError,
    verify,
)

__all__ = [
    "MalformedHeaderError",
    "MissingHeaderError",
    "NoMatchError",
    "RefusedError",
    "TooNewError",
    "TooOldError",
    "verify",
]
