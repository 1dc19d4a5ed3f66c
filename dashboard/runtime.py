"""What the running application holds besides Flask's own configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from flask import current_app

from dashboard.live import Hub
from fencepost.keyring import Keyring
from fencepost.producer import Producer
from fencepost.settings import Settings


@dataclass(frozen=True, slots=True)
class Runtime:
    """Settings and keys, parsed once, and the hub of the live streams."""

    settings: Settings
    keyring: Keyring = field(repr=False)
    endpoint_keyring: Keyring = field(repr=False)
    secret: bytes = field(repr=False)
    hub: Hub = field(repr=False)

    def producer(self) -> Producer:
        """Give what this process publishes with."""
        return Producer(
            keyring=self.keyring,
            schema=self.settings.schema,
            node=self.settings.node_name,
            max_payload_bytes=self.settings.max_payload_bytes,
        )


def runtime() -> Runtime:
    """Give the current application's."""
    return cast("Runtime", current_app.extensions["fencepost"])
