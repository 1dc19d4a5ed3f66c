"""What an exception says about a request: its class, and one line without URL or payload."""

from __future__ import annotations

import http.client
import logging
import ssl
import traceback

from requests.exceptions import RequestException
from urllib3.exceptions import InvalidHeader

from fencepost.errors import InvalidInputError
from fencepost.model import ErrorClass
from fencepost.outcomes import clean_text
from worker.local_faults import LocalFaultError, is_local_fault
from worker.resolver import AddressForbiddenError
from worker.system_lookup import LookupFailedError
from worker.transport.calls import Call, Cut, Phase
from worker.transport.dialling import ConnectFailedError

log = logging.getLogger(__name__)

_CLASSES_OF_CUTS = {
    Cut.DEADLINE: ErrorClass.TIMEOUT,
    Cut.CONNECT: ErrorClass.TIMEOUT,
    Cut.LEASE: ErrorClass.RESET,
    Cut.CLOSED: ErrorClass.RESET,
}
_CLASSES_OF_OURS = {
    AddressForbiddenError: ErrorClass.ADDRESS_FORBIDDEN,
    LookupFailedError: ErrorClass.DNS,
    LocalFaultError: ErrorClass.LOCAL_ERROR,
}

_Judgement = tuple[ErrorClass, str]


def judge(call: Call, error: BaseException) -> tuple[ErrorClass, str]:
    """Say what became of a request that ended in an exception.

    ``requests`` and urllib3 wrap what happened, in ways that depend on where it did, and put
    the URL into their text. So the first exception is found and described, and no other.
    """
    if call.cut is not None:
        return _CLASSES_OF_CUTS[call.cut], say_cut(call, call.cut)
    causes = _causes(error)
    for kinds in (_judge_own, _judge_tls, _judge_http):
        for cause in causes:
            found = kinds(call, cause)
            if found is not None:
                kind, text = found
                return kind, clean_text(text + _seen(call))
    # A defect of ours, or of the libraries. It is charged like any answer that cannot be used:
    # one that a receiver can provoke must not be free, or it would be tried for ever.
    _report_defect(causes[0])
    return ErrorClass.BAD_RESPONSE, f"unexpected {type(causes[0]).__name__} while {call.phase}"


def say_cut(call: Call, cut: Cut) -> str:
    """Say in one line why and where we ended a request ourselves."""
    if cut is Cut.LEASE:
        return cut.value
    return f"{cut.value} while {call.phase}{_seen(call)}"


def _seen(call: Call) -> str:
    is_known = call.status_seen is not None and call.phase is Phase.HEAD
    return f" (the status line said {call.status_seen})" if is_known else ""


def _causes(error: BaseException) -> list[BaseException]:
    """List the exceptions inside one another, the innermost first."""
    found: dict[int, BaseException] = {}
    waiting = [error]
    while waiting:
        cause = waiting.pop()
        if id(cause) not in found:
            found[id(cause)] = cause
            inner = (cause.__context__, cause.__cause__, getattr(cause, "reason", None))
            waiting += [one for one in (*inner, *cause.args) if isinstance(one, BaseException)]
    return list(reversed(found.values()))


def _judge_own(_: Call, cause: BaseException) -> _Judgement | None:
    for own, kind in _CLASSES_OF_OURS.items():
        if isinstance(cause, own):
            return kind, str(cause)
    match cause:
        case InvalidInputError():
            is_header = cause.field == "headers"
            return ErrorClass.INVALID_HEADER if is_header else ErrorClass.INVALID_URL, str(cause)
        case ConnectFailedError():
            return ErrorClass.TIMEOUT if cause.timed_out else ErrorClass.CONNECT, str(cause)
        case _ if is_local_fault(cause):
            return ErrorClass.LOCAL_ERROR, f"this machine is out of resources: {_why(cause)}"
        case _:
            return None


def _judge_tls(call: Call, cause: BaseException) -> _Judgement | None:
    match cause:
        case TimeoutError():
            return ErrorClass.TIMEOUT, f"nothing happened for too long while {call.phase}"
        case ssl.SSLCertVerificationError():
            return ErrorClass.TLS, f"the certificate is not valid: {cause.verify_message}"
        case OSError() if call.phase is Phase.TLS and not isinstance(cause, RequestException):
            return ErrorClass.TLS, f"no TLS connection: {_why(cause)}"
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return ErrorClass.RESET, f"the connection was closed while {call.phase}"
        case ssl.SSLError():
            return ErrorClass.TLS, f"{_why(cause)} while {call.phase}"
        case _:
            return None


def _judge_http(call: Call, cause: BaseException) -> _Judgement | None:
    match cause:
        case http.client.RemoteDisconnected():
            return ErrorClass.RESET, "the connection was closed without an answer"
        case http.client.IncompleteRead():
            return ErrorClass.RESET, "the answer was cut off"
        case http.client.HTTPException() | InvalidHeader():
            return ErrorClass.BAD_RESPONSE, f"not an HTTP answer: {_why(cause)}"
        case OSError() if not isinstance(cause, RequestException):  # which is only a wrapper
            return ErrorClass.RESET, f"{_why(cause)} while {call.phase}"
        case _:
            return None


def _why(cause: BaseException) -> str:
    match cause:
        case ssl.SSLError(reason=str(reason)):
            return reason.lower().replace("_", " ")
        case OSError(strerror=str(why)):
            return why
        case _:
            return f"{type(cause).__name__} {cause}".strip()


def _report_defect(cause: BaseException) -> None:
    """Log where it happened; the texts of the exceptions around it may hold a URL."""
    frames = traceback.extract_tb(cause.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    log.error("transport.unexpected error=%s at=%s", type(cause).__name__, where)
