"""Declare what a request's JSON body may hold, and read it strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Literal, NoReturn, TypeVar

from flask import request

from dashboard.api.bodies import read_body
from dashboard.api.problem import ProblemError
from fencepost.errors import InvalidInputError

MAX_BODY_BYTES: Final = 65_536

_MAX_DIGITS: Final = 18  # what fits a bigint; longer numbers would only be cut somewhere else
_JSON: Final = "application/json"

Kind = Literal["string", "integer", "number", "boolean", "object", "array"]
View = TypeVar("View", bound=Callable[..., Any])

_TYPES: Final[Mapping[Kind, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a JSON body, in JSON Schema's words."""

    name: str
    kind: Kind
    description: str
    required: bool = False
    nullable: bool = False
    max_length: int | None = None
    """Characters of a string."""
    minimum: float | None = None
    maximum: float | None = None

    def check(self, value: object) -> None:
        """Refuse a value of another type or beyond the limits with an InvalidInputError."""
        if value is None and self.nullable:
            return
        fits = isinstance(value, _TYPES[self.kind])
        if not fits or (isinstance(value, bool) and self.kind != "boolean"):
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise InvalidInputError(self.name, f"{self.name} must be {article} {self.kind}.")
        if isinstance(value, str) and self.max_length is not None and len(value) > self.max_length:
            message = f"{self.name} may have at most {self.max_length} characters."
            raise InvalidInputError(self.name, message)
        if isinstance(value, int | float):
            self._check_range(value)

    def _check_range(self, value: float) -> None:
        if self.minimum is not None and value < self.minimum:
            raise InvalidInputError(self.name, f"{self.name} must be at least {self.minimum:g}.")
        if self.maximum is not None and value > self.maximum:
            raise InvalidInputError(self.name, f"{self.name} must be at most {self.maximum:g}.")


def accepts(*fields: Field) -> Callable[[View], View]:
    """Read the request's JSON body by these fields and hand it to the view as ``body``.

    A body may be missing altogether when no field is required.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def reading(**arguments: object) -> object:
            return view(body=read_fields(fields), **arguments)

        reading.body_fields = fields  # type: ignore[attr-defined]  # for who describes the routes
        return reading  # type: ignore[return-value]  # the same view, its body filled in

    return decorate


def read_fields(fields: tuple[Field, ...]) -> dict[str, Any]:
    """Read the body as an object with these members and no others.

    Raises:
        ProblemError: 400 it is no JSON object, 413, 415.
        InvalidInputError: a member is unknown, missing, of another type or beyond its limits.
    """
    body = read_object(is_optional=not any(field.required for field in fields))
    known = {field.name: field for field in fields}
    for name in body:
        if name not in known:
            raise InvalidInputError(name, f"There is no field {name[:60]!r} here.")
    for field in fields:
        if field.name in body:
            field.check(body[field.name])
        elif field.required:
            raise InvalidInputError(field.name, f"{field.name} is missing.")
    return body


def read_object(*, is_optional: bool = False) -> dict[str, Any]:
    """Read the body as one JSON object, whatever its members.

    Args:
        is_optional: whether an empty body stands for an empty object.

    Raises:
        ProblemError: 400 it is no JSON object, 413 too large, 415 of another type.
        InvalidInputError: a member is there twice, or holds text that cannot be stored.
    """
    data = read_body(MAX_BODY_BYTES)
    if not data and is_optional:
        return {}
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if request.mimetype != _JSON or charset not in {"utf-8", "utf8"}:
        message = "Send a JSON object as Content-Type: application/json."
        raise ProblemError(415, message, field="Content-Type")
    return parse_object(data)


def parse_object(data: bytes) -> dict[str, Any]:
    """Parse one JSON object in UTF-8; errors as in ``read_object``."""
    try:
        found = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_number,
        )
    except UnicodeDecodeError:
        raise _unparsable("The body is not UTF-8.") from None
    except RecursionError:
        raise _unparsable("The body is nested too deeply.") from None
    except json.JSONDecodeError as error:
        message = f"The body is not JSON: {error.msg}, line {error.lineno} column {error.colno}."
        raise _unparsable(message) from None
    if not isinstance(found, dict):
        raise _unparsable("The body must be a JSON object.")
    for name, value in found.items():
        if not _is_storable(name) or not _is_storable(value):
            message = "Text may hold no NUL and no half of a surrogate pair."
            raise InvalidInputError(_shown(name), message)
    return found


def _is_storable(value: object) -> bool:
    """Tell whether PostgreSQL can store every text in a parsed value."""
    match value:
        case str():
            return "\0" not in value and not any("\ud800" <= each <= "\udfff" for each in value)
        case list():
            return all(map(_is_storable, value))
        case dict():
            return all(map(_is_storable, value)) and all(map(_is_storable, value.values()))
        case _:
            return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidInputError(_shown(name), f"{_shown(name)!r} is there twice.")
        found[name] = value
    return found


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _unparsable("The body holds a number that is too large.")
    return int(digits)


def _number(digits: str) -> float:
    found = float(digits)
    if not math.isfinite(found):
        raise _unparsable("The body holds a number that is too large.")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _unparsable(f"The body is not JSON: there is no {name} in it.")


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode()[:60]


def _unparsable(message: str) -> ProblemError:
    return ProblemError(400, message, code="invalid_json")
