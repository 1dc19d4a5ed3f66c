"""What Fencepost raises on purpose, grouped by where it happens."""

from __future__ import annotations


class FencepostError(Exception):
    """The base of everything raised on purpose. ``str(error)`` is one line that says what to do."""


# settings and keys


class SettingsError(FencepostError):
    """Some settings cannot be used; the message has one line for each fault."""


class KeyUnavailableError(FencepostError):
    """The key that sealed this is not in the keyring: put it back and try again."""


class UndecryptableError(FencepostError):
    """The ciphertext was changed, moved or cut: it must never be sent."""


# input


class InvalidInputError(FencepostError):
    """A value cannot be accepted as it stands.

    Attributes:
        field: the name of the field or parameter, as the user wrote it.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NotFoundError(FencepostError):
    """There is no such thing, or no longer."""


class ConflictError(FencepostError):
    """The thing is in a state that does not allow this; nothing was changed."""


# publishing


class NotInTransactionError(FencepostError):
    """There is no transaction that the event could belong to; begin one first."""


class IdempotencyConflictError(ConflictError):
    """The idempotency key was used before, with another type, content type or payload."""


# the database


class DatabaseUnavailableError(FencepostError):
    """The database cannot be reached right now; what was not committed did not happen."""


class SchemaError(FencepostError):
    """The database's schema is not the one this version needs; run ``fencepost migrate``."""
