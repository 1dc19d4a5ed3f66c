"""What is chosen for a bulk action: read from a form, and said in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl

from werkzeug.datastructures import MultiDict

from dashboard.listing import read_filter
from dashboard.names import names_of
from fencepost.errors import InvalidInputError
from fencepost.filter_values import ids
from fencepost.filters import DeliveryFilter
from fencepost.states import State

CONFIRM_FROM: Final = 100
"""From so many deliveries on, their number has to be typed."""


def read_scope(form: MultiDict[str, str]) -> DeliveryFilter:
    """Read what is meant: all that the list's filter matches, or the rows that were picked.

    The form holds the filter either way. Of it the states also hold for the picked ones: who
    picked a dead letter did not mean one that was delivered since.

    Args:
        form: with ``all``, or with the ids in ``pick``; the filter as fields, or in ``filter``
            as a query string.

    Raises:
        InvalidInputError: nothing is picked, or the filter cannot be read.
    """
    written = form.get("filter")
    scope = read_filter(form if written is None else MultiDict(parse_qsl(written)))
    if form.get("all"):
        return scope
    picked = ids("pick", form.getlist("pick"))
    if not picked:
        raise InvalidInputError("pick", "Select at least one delivery, or all that match.")
    return DeliveryFilter(id=picked, state=scope.state, discarded=scope.discarded)


def in_words(scope: DeliveryFilter) -> str:
    """Say a scope with the subscriptions' names, and picked rows by their number."""
    names = names_of(set(scope.sub))
    chosen = ", ".join(names.get(each, str(each)) for each in scope.sub)
    if scope.is_by_entry:
        told, one = "dead letters", "dead letter"
        rest = replace(scope, sub=(), state=(), discarded=None)
    else:
        told, one = "deliveries", "delivery"
        states = () if set(scope.state) == set(State) else scope.state
        rest = replace(scope, sub=(), state=states, discarded=None)
    if len(rest.id) > 1:
        told, rest = f"{len(rest.id)} picked {told}", replace(rest, id=())
    elif rest.id:
        told, rest = f"{one} {rest.id[0]}", replace(rest, id=())
    conditions = [rest.in_words()] if rest != DeliveryFilter() else []
    conditions += [f"subscription {chosen}"] if chosen else []
    if conditions:
        return f"{told}: {', '.join(conditions)}"
    return told if scope.id else f"all {told}"


def read_typed(text: str) -> int | None:
    """Read the number that confirms; None where none was typed that can be one."""
    typed = text.replace(",", "").strip()
    return int(typed) if typed.isascii() and typed.isdecimal() else None


def check_typed(eligible: int, typed: int | None) -> None:
    """Refuse what was not confirmed by its number, where there are many.

    Raises:
        InvalidInputError: ``confirm``.
    """
    if eligible >= CONFIRM_FROM and typed != eligible:
        raise InvalidInputError("confirm", f"Type {eligible} to confirm.")
