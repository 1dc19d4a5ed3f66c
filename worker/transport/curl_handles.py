"""libcurl's handles, set up to open connections and to do nothing else."""

from __future__ import annotations

from typing import Final

import pycurl

_MAX_SPARE: Final = 1024


class CurlHandles:
    """Makes handles, and gives them out again.

    Args:
        authorities: the file of those who vouch for receivers.
    """

    def __init__(self, authorities: str) -> None:
        self._authorities = authorities
        self._spare: list[pycurl.Curl] = []

    def take(self) -> pycurl.Curl:
        """Give a handle."""
        if self._spare:
            return self._spare.pop()
        handle = pycurl.Curl()
        # libcurl is not told what to send. It would send a request a second time, unasked, when
        # a connection that was used before dies under it, and nothing can forbid it that.
        handle.setopt(pycurl.CONNECT_ONLY, 1)
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.PROXY, "")  # whatever the environment says
        handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        handle.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)  # and above
        handle.setopt(pycurl.SSL_VERIFYPEER, 1)
        handle.setopt(pycurl.SSL_VERIFYHOST, 2)
        handle.setopt(pycurl.CAINFO, self._authorities)
        handle.unsetopt(pycurl.CAPATH)
        return handle

    def put(self, handle: pycurl.Curl) -> None:
        """Take a handle back whose connection is closed."""
        if len(self._spare) < _MAX_SPARE:
            self._spare.append(handle)
        else:
            handle.close()
