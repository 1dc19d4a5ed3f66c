"""Which transport a worker sends with."""

from __future__ import annotations

import resource
import sys

from fencepost.errors import SettingsError
from fencepost.settings import Settings
from worker.resolver import Resolver
from worker.transport.base import Transport
from worker.transport.requests import RequestsTransport

SWITCH_SECONDS = 0.0005
"""One thread carries all requests of the curl transport: it must not wait 5 ms for each turn."""


def make_transport(settings: Settings) -> Transport:
    """Make the transport that the settings name.

    Raises:
        SettingsError: what it needs is not installed.
    """
    resolver = Resolver(allow_networks=settings.allow_networks)
    if settings.transport == "curl":
        return _curl(settings, resolver)
    return RequestsTransport(
        resolver,
        deadline=settings.deadline_seconds,
        connect=settings.connect_seconds,
        concurrency=settings.concurrency,
        allow_networks=settings.allow_networks,
        allow_http=settings.allow_http,
    )


def _curl(settings: Settings, resolver: Resolver) -> Transport:
    try:
        from worker.transport.curl import CurlTransport  # noqa: PLC0415 - pycurl is an extra
    except ImportError as error:
        raise SettingsError(
            "FENCEPOST_TRANSPORT: curl needs pycurl; pip install 'fencepost[server,curl]'"
        ) from error
    sys.setswitchinterval(SWITCH_SECONDS)
    _allow_many_sockets()
    return CurlTransport(
        resolver,
        deadline=settings.deadline_seconds,
        connect=settings.connect_seconds,
        concurrency=settings.concurrency,
        allow_networks=settings.allow_networks,
        allow_http=settings.allow_http,
    )


def _allow_many_sockets() -> None:
    """Use all the descriptors that the system grants: many ship a low limit and a high ceiling."""
    _, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (ceiling, ceiling))
