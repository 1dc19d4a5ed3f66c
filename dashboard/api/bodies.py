"""Read a request's body: all of it or a refusal, never more than allowed, never for ever."""

from __future__ import annotations

import socket
import time
from typing import IO, Final

from flask import request
from werkzeug.exceptions import ClientDisconnected, HTTPException

from dashboard.api.problem import ProblemError

SILENCE_SECONDS: Final = 10
"""How long a client may say nothing before its body is given up."""
TOTAL_SECONDS: Final = 120
"""How long a body may take in all."""

_STEP: Final = 65_536
_PLAIN: Final = frozenset({"", "identity"})


def read_body(limit: int) -> bytes:
    """Read the body exactly as it was sent.

    Args:
        limit: bytes; one more is refused, before reading where the length is announced.

    Raises:
        ProblemError: 413 too large, 415 compressed, 408 silent or slow, 400 cut short or badly
            chunked.
    """
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _PLAIN:
        message = "Send the body as it is: Content-Encoding is not accepted."
        raise ProblemError(415, message, field="Content-Encoding")
    announced = request.content_length
    if announced is not None and announced > limit:
        raise _too_large(limit)
    # One byte more than allowed tells a body that is too long from one that just fits.
    request.max_content_length = limit + 1
    try:
        body = _read(request.stream, limit)
    except TimeoutError:
        raise ProblemError(408, "The body did not arrive in time.") from None
    if announced is not None and len(body) < announced:
        raise _broken()
    return body


def _read(stream: IO[bytes], limit: int) -> bytes:
    """Read to the end, with gunicorn's own socket set to give up on a silent client."""
    connection: socket.socket | None = request.environ.get("gunicorn.socket")
    started = time.monotonic()
    body = bytearray()
    try:
        if connection is not None:
            connection.settimeout(SILENCE_SECONDS)
        while len(body) <= limit and (chunk := _next(stream, min(_STEP, limit + 1 - len(body)))):
            body += chunk
            if time.monotonic() - started > TOTAL_SECONDS:
                raise TimeoutError
    finally:
        if connection is not None:
            connection.settimeout(None)
    if len(body) > limit:
        raise _too_large(limit)
    return bytes(body)


def _next(stream: IO[bytes], size: int) -> bytes:
    try:
        return stream.read(size)
    except ClientDisconnected as error:  # Werkzeug's word for any OSError
        if isinstance(error.__context__, TimeoutError):
            raise error.__context__ from None
        raise _broken() from None
    except HTTPException:
        raise
    except Exception:  # noqa: BLE001  # no code of ours: the server cannot parse the chunks
        raise _broken() from None


def _too_large(limit: int) -> ProblemError:
    return ProblemError(413, f"The body is larger than the {limit} bytes that are accepted.")


def _broken() -> ProblemError:
    message = "The body ended early, or its chunks cannot be read."
    return ProblemError(400, message, code="broken_body")
