"""Who may do what: three roles, and the one decorator that every route carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar

View = TypeVar("View", bound=Callable[..., Any])

_MARK: Final = "required_role"
PUBLIC: Final = "public"
"""What a route that needs no login declares."""


class Role(StrEnum):
    """What a user or a token may do; each one may do all that those before it may."""

    VIEWER = "viewer"  # reads everything but payloads
    OPERATOR = "operator"  # replays, discards, pauses, resumes, tests
    ADMIN = "admin"  # endpoints and their secrets

    def may(self, needed: Role) -> bool:
        """Tell whether this role is enough where ``needed`` is asked for."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who is asking, for the decision and for the audit log."""

    name: str
    role: Role
    kind: Literal["user", "token"]

    def __str__(self) -> str:
        """Say it as the audit log does: by which door, and who."""
        return f"{self.kind} {self.name}"


def requires(role: str) -> Callable[[View], View]:
    """Declare which role a route needs. A route without a declaration serves nobody.

    The check itself is ``dashboard.auth.authorize``, which runs before every request,
    so that the order of decorators cannot open a door.
    """
    needed = Role(role)

    def mark(view: View) -> View:
        setattr(view, _MARK, needed)
        return view

    return mark


def public(view: View) -> View:
    """Declare that a route needs no login."""
    setattr(view, _MARK, PUBLIC)
    return view


def declared_role(view: Callable[..., Any]) -> Role | Literal["public"] | None:
    """Read what a route declared; None when it declared nothing."""
    found: Role | Literal["public"] | None = getattr(view, _MARK, None)
    return found
