"""The keys that seal and open: the first seals, all of them open."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self
from uuid import UUID

from fencepost import sealing
from fencepost.errors import KeyUnavailableError, SettingsError, UndecryptableError

_FEWEST_DIFFERENT_BYTES: Final = 8
"""Of 32 random bytes fewer differ once in 10^37 times; a constant or a typed word has fewer."""


class Keyring:
    """Keys by id, in the order in which they were given. Made by ``Keyring.parse``.

    It shows the ids of its keys, never the keys. Python cannot promise to wipe them from memory.
    """

    __slots__ = ("_keys", "_mac_keys")

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys: Final = MappingProxyType(dict(keys))
        self._mac_keys: Final = {
            key_id: sealing.derive(key, sealing.bind("fencepost.mac.v1", key_id))
            for key_id, key in keys.items()
        }

    @classmethod
    def parse(cls, text: str, *, name: str = "FENCEPOST_KEYS") -> Self:
        """Read ``id:base64key[,id:base64key…]``.

        Args:
            text: ids of 1 to 32 letters, digits, ``_`` and ``-``; keys of exactly 32 bytes.
            name: the setting it came from, for the message.

        Raises:
            SettingsError: one line for each fault; keys are never quoted.
        """
        if text.strip().startswith("aws-kms:"):
            raise SettingsError(f"{name}: keys in AWS KMS are not supported by this version")
        keys: dict[str, bytes] = {}
        faults = []
        for place, entry in enumerate(text.split(","), start=1):
            key_id, colon, encoded = entry.strip().partition(":")
            if not colon or not sealing.KEY_ID.fullmatch(key_id):
                faults.append(
                    f"{name}: entry {place} must be id:base64key, the id made of 1 to"
                    f" {sealing.KEY_ID_MAX} letters, digits, _ and -"
                )
                continue
            key = _decode(encoded)
            if key is None:
                fault = f"must be base64 of exactly {sealing.KEY_BYTES} bytes"
            elif len(set(key)) < _FEWEST_DIFFERENT_BYTES:
                fault = "is not random: make one with `openssl rand -base64 32`"
            elif key_id in keys:
                fault = "is given twice"
            elif key in keys.values():
                fault = "has the key of another id: each needs its own"
            else:
                keys[key_id] = key
                continue
            faults.append(f"{name}: key {key_id} {fault}")
        if faults:
            raise SettingsError("\n".join(faults))
        return cls(keys)

    @staticmethod
    def generate() -> str:
        """Make the text of a keyring with one fresh key."""
        key = base64.b64encode(secrets.token_bytes(sealing.KEY_BYTES)).decode("ascii")
        return f"k{secrets.token_hex(4)}:{key}"

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of all keys; the first is the one that seals."""
        return tuple(self._keys)

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys)})"

    def seal_payload(
        self, data: bytes, *, event_id: UUID, content_type: str, event_type: str
    ) -> tuple[str, bytes]:
        """Seal an event's payload.

        Args:
            data: the payload as published.
            event_id: with ``content_type`` and ``event_type``, what it is bound to.
            content_type: as published.
            event_type: as published.

        Returns:
            The id of the key that wraps, and the sealed form.
        """
        key_id = self.key_ids[0]
        sealed = sealing.seal(
            data,
            key=self._keys[key_id],
            key_id=key_id,
            place=_event(event_id),
            aad=_payload(event_id, content_type, event_type),
        )
        return key_id, sealed

    def open_payload(
        self, blob: bytes, *, event_id: UUID, content_type: str, event_type: str
    ) -> bytes:
        """Open an event's payload.

        Raises:
            KeyUnavailableError: its key, or a version that reads its form, is not here: wait.
            UndecryptableError: it was changed, moved or cut: never send it.
        """
        return sealing.unseal(
            blob,
            key=self._key_of(blob),
            place=_event(event_id),
            aad=_payload(event_id, content_type, event_type),
        )

    def rewrap_payload(self, blob: bytes, *, event_id: UUID) -> tuple[str, bytes]:
        """Wrap a payload's data key under the first key, without opening the payload.

        Args:
            blob: the sealed form, or its first ``sealing.HEAD_MAX`` bytes.
            event_id: whose it is.

        Raises:
            KeyUnavailableError: its present key is not here.
            UndecryptableError: its wrapped key was changed or moved.
        """
        return self.key_ids[0], self._rewrap(blob, _event(event_id))

    def seal(self, data: bytes, *, context: tuple[str, ...]) -> bytes:
        """Seal a secret, a URL, headers or a response.

        Args:
            data: any bytes.
            context: what it is and whose, e.g. ``("endpoint", subscription_id)``.
        """
        key_id = self.key_ids[0]
        place = sealing.bind("fencepost.secret.v1", *context)
        return sealing.seal(data, key=self._keys[key_id], key_id=key_id, place=place, aad=place)

    def open(self, blob: bytes, *, context: tuple[str, ...]) -> bytes:
        """Open what ``seal`` made, with the same context.

        Raises:
            KeyUnavailableError: its key, or a version that reads its form, is not here: wait.
            UndecryptableError: it was changed, moved or cut.
        """
        place = sealing.bind("fencepost.secret.v1", *context)
        return sealing.unseal(blob, key=self._key_of(blob), place=place, aad=place)

    def rewrap(self, blob: bytes, *, context: tuple[str, ...]) -> bytes:
        """Wrap under the first key what ``seal`` made, as ``rewrap_payload`` does."""
        return self._rewrap(blob, sealing.bind("fencepost.secret.v1", *context))

    def mac(self, *parts: str | bytes) -> bytes:
        """Make a keyed fingerprint of ``parts``: without the key nothing can be guessed from it.

        Returns:
            The id of the key, after its length, then 32 bytes.
        """
        key_id = self.key_ids[0]
        digest = hmac.digest(self._mac_keys[key_id], sealing.bind(*parts), "sha256")
        return bytes((len(key_id),)) + key_id.encode("ascii") + digest

    def verify_mac(self, mac: bytes, *parts: str | bytes) -> bool:
        """Tell whether ``mac`` was made of the same parts, under any key of this keyring.

        Raises:
            KeyUnavailableError: the key that made it is not here.
            UndecryptableError: this is not what ``mac`` makes.
        """
        key_id = mac_key_id(mac)
        if key_id not in self._mac_keys:
            raise KeyUnavailableError(_missing(key_id))
        digest = hmac.digest(self._mac_keys[key_id], sealing.bind(*parts), "sha256")
        return hmac.compare_digest(mac[1 + len(key_id) :], digest)

    def _rewrap(self, blob: bytes, place: bytes) -> bytes:
        key_id, old_key = self.key_ids[0], self._key_of(blob)
        key = self._keys[key_id]
        return sealing.rewrap(blob, old_key=old_key, key=key, key_id=key_id, place=place)

    def _key_of(self, blob: bytes) -> bytes:
        key_id = sealing.key_id_of(blob)
        try:
            return self._keys[key_id]
        except KeyError:
            raise KeyUnavailableError(_missing(key_id)) from None


def mac_key_id(mac: bytes) -> str:
    """Read which key made a fingerprint.

    Raises:
        UndecryptableError: this is not what ``Keyring.mac`` makes.
    """
    key_id = mac[1 : 1 + mac[0]].decode("ascii", "replace") if mac else ""
    if not sealing.KEY_ID.fullmatch(key_id):
        raise UndecryptableError("this is not a fingerprint that Fencepost made")
    return key_id


def _missing(key_id: str) -> str:
    return f"key {key_id} sealed this and is not in the keyring: put it back"


def _event(event_id: UUID) -> bytes:
    return sealing.bind("fencepost.event.v1", event_id.bytes)


def _payload(event_id: UUID, content_type: str, event_type: str) -> bytes:
    return sealing.bind("fencepost.payload.v1", event_id.bytes, content_type, event_type)


def _decode(encoded: str) -> bytes | None:
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == sealing.KEY_BYTES else None
