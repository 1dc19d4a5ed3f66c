"""Passwords as argon2id hashes, checked in the same time whether the account exists or not."""

from __future__ import annotations

import secrets
import threading
import unicodedata
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from fencepost.errors import InvalidInputError
from fencepost.lines import check_line

SHORTEST: Final = 12
"""Characters of a new password. Source: NIST SP 800-63B asks for eight at least."""
LONGEST_BYTES: Final = 1024
"""Of UTF-8: what is longer is refused before it costs anything."""

_LONGEST_NAME: Final = 64
_HASHER: Final = PasswordHasher()
# Each check takes 64 MiB for its time: a flood of logins must not take it all.
_AT_ONCE: Final = threading.BoundedSemaphore(4)


def check_name(name: object) -> str:
    """Accept a user's name: one line, composed as NFKC. InvalidInputError names ``name``."""
    line = check_line(name, field="name", longest=_LONGEST_NAME)
    return check_line(unicodedata.normalize("NFKC", line), field="name", longest=_LONGEST_NAME)


def fold_name(name: str) -> str:
    """Give the form in which names are compared: those that look alike are one account."""
    folded = unicodedata.normalize("NFKC", " ".join(name.split())).casefold()
    # What PostgreSQL cannot store is in nobody's name.
    storable = folded.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    return unicodedata.normalize("NFKC", storable)


def hash_password(password: str) -> str:
    """Hash a new password.

    Raises:
        InvalidInputError: ``password``; the message does not quote it.
    """
    if len(password) < SHORTEST:
        raise InvalidInputError(
            "password", f"the password must be at least {SHORTEST} characters long"
        )
    if len(_bytes(password)) > LONGEST_BYTES:
        raise InvalidInputError(
            "password", f"the password must be at most {LONGEST_BYTES} bytes long"
        )
    with _AT_ONCE:
        return _HASHER.hash(_bytes(password))


def hash_nothing() -> str:
    """Give the hash of a password that nobody knows, for an account entered by a link alone."""
    return hash_password(secrets.token_urlsafe(32))


def is_password(password: str, password_hash: str | None) -> bool:
    """Check a password.

    Args:
        password: as it was typed; what is too long is never right.
        password_hash: of the account; None: there is no such account, which takes as long.
    """
    decoy = _decoy()  # also where it is not needed, so that making it betrays nothing
    too_long = len(_bytes(password)) > LONGEST_BYTES
    with _AT_ONCE:
        try:
            _HASHER.verify(password_hash or decoy, b"" if too_long else _bytes(password))
        except (VerificationError, InvalidHashError):
            return False
    return not too_long and password_hash is not None


@cache
def _decoy() -> str:
    """Give what is checked where there is no account: nobody knows its password."""
    return _HASHER.hash(secrets.token_hex(16))


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
