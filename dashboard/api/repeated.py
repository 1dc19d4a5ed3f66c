"""Keep a header that came twice from passing for one with a comma in it."""

from __future__ import annotations

from typing import Any, Final

_SINGLE: Final = frozenset({"AUTHORIZATION", "IDEMPOTENCY-KEY"})


def join_repeated(_worker: object, request: Any) -> None:  # noqa: ANN401  # gunicorn has no types
    """Join repeated single headers with a comma and a space, as RFC 9110 section 5.3 writes them.

    gunicorn joins them with the comma alone, and ``a,b`` is a good idempotency key. With the
    space it is none, so a key that was sent twice is refused. For gunicorn's ``pre_request``.
    """
    found: dict[str, list[str]] = {}
    for name, value in request.headers:
        if name in _SINGLE:
            found.setdefault(name, []).append(value)
    for name, values in found.items():
        if len(values) > 1:
            others = [each for each in request.headers if each[0] != name]
            request.headers = [*others, (name, ", ".join(values))]
