"""Fencepost: webhooks that are never lost, and a timeline for each of them."""

__version__ = "0.2.0.dev0"

from fencepost.errors import (
    ConflictError,
    DatabaseUnavailableError,
    FencepostError,
    IdempotencyConflictError,
    InvalidInputError,
    KeyUnavailableError,
    NotFoundError,
    NotInTransactionError,
    SchemaError,
    SettingsError,
    UndecryptableError,
)
from fencepost.publish import apublish, publish

__all__ = [
    "ConflictError",
    "DatabaseUnavailableError",
    "FencepostError",
    "IdempotencyConflictError",
    "InvalidInputError",
    "KeyUnavailableError",
    "NotFoundError",
    "NotInTransactionError",
    "SchemaError",
    "SettingsError",
    "UndecryptableError",
    "__version__",
    "apublish",
    "publish",
]
