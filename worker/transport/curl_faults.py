"""What libcurl's errors are called in Python, so that ``faults`` judges both transports alike."""

from __future__ import annotations

import errno
import os
import re
import ssl
from typing import Final

import pycurl

from worker.local_faults import LocalFaultError, is_local_fault

_LOCAL: Final = frozenset(
    {pycurl.E_FAILED_INIT, pycurl.E_OUT_OF_MEMORY, pycurl.E_SSL_CACERT_BADFILE}
)
_VERIFY_RESULT: Final = re.compile(r"verify result: (.+?)(?: \([0-9]+\))?$")
_OPENSSL_REASON: Final = re.compile(r"SSL routines:[^:]*:([^,]+)")
_ENDED: Final = "unexpected eof while reading"


def opening_fault(handle: pycurl.Curl, code: int, words: str, *, host: str) -> Exception:
    """Say why a connection could not be opened.

    Args:
        handle: what libcurl knows of it beside.
        code: its ``CURLE_…``.
        words: what it says to that.
        host: whose certificate it asked for.
    """
    if code in _LOCAL:
        return LocalFaultError(f"libcurl could not be used: {words}")
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        return _certificate_error(words, host)
    return _system_error(handle) or OSError(errno.EPROTO, _reason(words))


def exchange_fault(handle: pycurl.Curl, error: pycurl.error) -> Exception:
    """Say why an open connection could not be read from or written to."""
    words = str(error.args[-1])
    found = _system_error(handle)
    if found is not None:
        return found
    reason = _reason(words)
    if reason == _ENDED:
        return ssl.SSLEOFError(ssl.SSL_ERROR_EOF, reason)
    failure = ssl.SSLError(ssl.SSL_ERROR_SSL, reason)
    failure.reason = reason
    return failure


def _certificate_error(words: str, host: str) -> ssl.SSLCertVerificationError:
    found = _VERIFY_RESULT.search(words)
    failure = ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, words)
    failure.verify_message = (
        found[1] if found else f"Hostname mismatch, certificate is not valid for '{host}'."
    )
    return failure


def _system_error(handle: pycurl.Curl) -> OSError | LocalFaultError | None:
    number = handle.getinfo(pycurl.OS_ERRNO)
    if not number:
        return None
    failure = OSError(number, os.strerror(number))
    if is_local_fault(failure):
        return LocalFaultError(f"no connection could be opened: {failure}")
    return failure


def _reason(words: str) -> str:
    found = _OPENSSL_REASON.search(words)
    return found[1].strip() if found else words
