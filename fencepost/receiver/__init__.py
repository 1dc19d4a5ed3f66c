"""The receiver's half: know who sent a request, and act once however often it comes."""

from fencepost.receiver.inbox import Inbox, StaleRequestError
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
    "Inbox",
    "MalformedHeaderError",
    "MissingHeaderError",
    "NoMatchError",
    "RefusedError",
    "StaleRequestError",
    "TooNewError",
    "TooOldError",
    "verify",
]
