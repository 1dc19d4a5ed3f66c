"""What people can do, in words: the buttons, and the questions that they lead to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dashboard.roles import Role
from fencepost.model import Subscription
from fencepost.states import Cause, State, causes_from


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that can be done.

    Attributes:
        name: the last part of the address that does it.
        label: of the button.
        effect: what will have happened, for the question.
        role: who may.
        icon: a glyph.
        kind: ``primary``, ``danger`` or neither.
        asks_reason: whether a reason can be given.
    """

    name: str
    label: str
    effect: str
    role: Role
    icon: str
    kind: str = ""
    asks_reason: bool = False


OF_DELIVERIES: Final[Mapping[Cause, Action]] = MappingProxyType(
    {
        Cause.SEND_NOW: Action(
            "replay", "Send now", "The attempt that waits is made at once, on the same budget.",
            Role.OPERATOR, "play", asks_reason=True,
        ),
        Cause.REPLAY: Action(
            "replay", "Replay",
            "It is sent again with the same webhook-id and a fresh budget of attempts. A receiver "
            "that already acted on it will see it again.",
            Role.OPERATOR, "replay", asks_reason=True,
        ),
        Cause.DISCARD: Action(
            "discard", "Discard",
            "It is given up for good: nothing is deleted, and bulk replays pass over it.",
            Role.OPERATOR, "bin", "danger", asks_reason=True,
        ),
    }
)  # fmt: skip

SENDING: Final = frozenset({Cause.SEND_NOW, Cause.REPLAY})

OF_SUBSCRIPTIONS: Final = (
    Action(
        "pause", "Pause", "Its deliveries are held, not dropped, until somebody resumes it.",
        Role.OPERATOR, "pause", asks_reason=True,
    ),
    Action(
        "resume", "Resume", "Its held deliveries are sent.", Role.OPERATOR, "play", "primary",
    ),
    Action(
        "test", "Send test event",
        "A worker sends it an ordinary delivery of type fencepost.test.", Role.OPERATOR, "arrow",
    ),
    Action(
        "rotate-secret", "Rotate secret",
        "A new signing secret is made. The old one signs beside it for 24 hours, so that the "
        "receiver has time to change.", Role.ADMIN, "loop",
    ),
    Action(
        "revoke-secret", "Revoke old secrets",
        "All secrets but the newest stop signing at once. A receiver that still holds an old "
        "one will refuse what is sent.", Role.ADMIN, "lock", "danger",
    ),
    Action(
        "remove", "Remove",
        "It receives nothing more, and what still waits for it goes to the DLQ. Its history "
        "stays.", Role.ADMIN, "bin", "danger",
    ),
)  # fmt: skip


def of_delivery(state: State, *, is_discarded: bool, is_sendable: bool) -> list[Action]:
    """Choose what can be done to a delivery: the legal moves of its state that are a person's.

    Args:
        state: where it stands.
        is_discarded: it was given up.
        is_sendable: its subscription and its payload are still there.
    """
    if is_discarded:
        return []
    possible = causes_from(state)
    if not is_sendable:
        possible -= SENDING
    return [action for cause, action in OF_DELIVERIES.items() if cause in possible]


def of_subscription(found: Subscription, role: Role) -> list[Action]:
    """Choose what somebody of that role can do to a subscription."""
    if found.removed_at is not None:
        return []
    done = "pause" if found.state == "paused" else "resume"
    return [each for each in OF_SUBSCRIPTIONS if each.name != done and role.may(each.role)]
