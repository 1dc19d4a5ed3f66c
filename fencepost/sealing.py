"""The sealed form of bytes: each has a data key of its own, which lies wrapped beside it.

======================  ======================================================================
1 byte                  version, now 1
4 bytes                 CRC-32 of the version, the key id's length and the key id
1 byte, 1 to 32 bytes   length of the key id, and the key id: which key of the keyring wraps
12 bytes                nonce of the wrapping
48 bytes                data key (32 bytes) and tag, AES-256-GCM
12 bytes                nonce of the data
the rest                data and tag, AES-256-GCM
======================  ======================================================================

Later versions keep everything up to the key id where it is. The CRC tells a damaged byte, which
no waiting mends, from a key or a version that is not here yet; it protects nothing else.

The key that wraps is never used itself: each place (an event, a secret) has its own, derived with
HKDF-Expand, so that random nonces put no limit on how much one keyring seals. What binds the data
to its place does not name the key: to wrap anew under another key leaves the data as it is.
"""

from __future__ import annotations

import hmac
import os
import re
import zlib
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fencepost.errors import KeyUnavailableError, UndecryptableError

KEY_BYTES: Final = 32
KEY_ID_MAX: Final = 32
KEY_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{KEY_ID_MAX}}}", re.ASCII)

_VERSION: Final = 1
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_WRAPPED_BYTES: Final = KEY_BYTES + _TAG_BYTES
HEAD_MAX: Final = 6 + KEY_ID_MAX + _NONCE_BYTES + _WRAPPED_BYTES
"""So much of a sealed form, or all of a shorter one, is enough to wrap its data key anew."""

_DAMAGED: Final = "this ciphertext was changed, moved or cut"


def bind(*parts: str | bytes) -> bytes:
    """Join parts so that no two lists of parts give the same bytes: each after its length."""
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join([piece for part in raw for piece in (len(part).to_bytes(4, "big"), part)])


def derive(key: bytes, info: bytes) -> bytes:
    """Derive a key of 32 bytes: HKDF-Expand with SHA-256, one block.

    Args:
        key: 32 uniformly random bytes, so that HKDF's extract step has nothing to do.
        info: what the derived key is for, from ``bind``.

    Source: RFC 5869 section 2.3.
    """
    return hmac.digest(key, info + b"\x01", "sha256")


def seal(data: bytes, *, key: bytes, key_id: str, place: bytes, aad: bytes) -> bytes:
    """Seal ``data`` under a fresh data key.

    Args:
        data: any length.
        key: the keyring's key, 32 bytes.
        key_id: its name, 1 to 32 ASCII characters.
        place: where it belongs, from ``bind``; the wrapped key opens nowhere else.
        aad: what must not change around it, from ``bind``.
    """
    random = os.urandom(KEY_BYTES + _NONCE_BYTES)
    data_key, nonce = random[:KEY_BYTES], random[KEY_BYTES:]
    head = _wrap(data_key, key=key, key_id=key_id, place=place)
    return head + nonce + AESGCM(data_key).encrypt(nonce, data, aad)


def unseal(blob: bytes, *, key: bytes, place: bytes, aad: bytes) -> bytes:
    """Open what ``seal`` made.

    Args:
        blob: the sealed form.
        key: the one that ``key_id_of(blob)`` names.
        place: as it was sealed.
        aad: as it was sealed.

    Raises:
        UndecryptableError: it is not what was sealed, or not where it was sealed.
    """
    start = _wrapped_at(blob) + _NONCE_BYTES + _WRAPPED_BYTES
    if len(blob) < start + _NONCE_BYTES + _TAG_BYTES:
        raise UndecryptableError(_DAMAGED)
    data_key = _unwrap(blob, key=key, place=place)
    nonce = blob[start : start + _NONCE_BYTES]
    try:
        return AESGCM(data_key).decrypt(nonce, blob[start + _NONCE_BYTES :], aad)
    except InvalidTag:
        raise UndecryptableError(_DAMAGED) from None


def rewrap(blob: bytes, *, old_key: bytes, key: bytes, key_id: str, place: bytes) -> bytes:
    """Wrap the data key of ``blob`` under another key; nonce and data stay byte for byte.

    Args:
        blob: the sealed form, or its first ``HEAD_MAX`` bytes: what follows them stays behind.
        old_key: the one that ``key_id_of(blob)`` names.
        key: the keyring's key, 32 bytes.
        key_id: its name.
        place: as it was sealed.

    Raises:
        UndecryptableError: the wrapped key is not what was sealed, or not where it was sealed.
    """
    data_key = _unwrap(blob, key=old_key, place=place)
    rest = blob[_wrapped_at(blob) + _NONCE_BYTES + _WRAPPED_BYTES :]
    return _wrap(data_key, key=key, key_id=key_id, place=place) + rest


def key_id_of(blob: bytes) -> str:
    """Read which key opens ``blob``.

    Raises:
        UndecryptableError: this is no sealed form, or its head is damaged.
        KeyUnavailableError: a newer Fencepost sealed it; that one can open it.
    """
    end = _wrapped_at(blob)
    if blob[0] > _VERSION:
        raise KeyUnavailableError(
            f"this is sealed in form {blob[0]}, newer than this version of Fencepost reads:"
            " upgrade this process"
        )
    key_id = blob[6:end].decode("ascii", "replace")
    if not KEY_ID.fullmatch(key_id):
        raise UndecryptableError(_DAMAGED)
    return key_id


def _wrap(data_key: bytes, *, key: bytes, key_id: str, place: bytes) -> bytes:
    label = bytes((len(key_id),)) + key_id.encode("ascii")
    check = zlib.crc32(bytes((_VERSION,)) + label)
    nonce = os.urandom(_NONCE_BYTES)
    aad = bind("fencepost.data-key.v1", place, key_id)
    wrapped = AESGCM(derive(key, aad)).encrypt(nonce, data_key, aad)
    return bytes((_VERSION,)) + check.to_bytes(4, "big") + label + nonce + wrapped


def _unwrap(blob: bytes, *, key: bytes, place: bytes) -> bytes:
    start = _wrapped_at(blob)
    middle, end = start + _NONCE_BYTES, start + _NONCE_BYTES + _WRAPPED_BYTES
    aad = bind("fencepost.data-key.v1", place, key_id_of(blob))
    try:
        return AESGCM(derive(key, aad)).decrypt(blob[start:middle], blob[middle:end], aad)
    except InvalidTag:
        raise UndecryptableError(_DAMAGED) from None


def _wrapped_at(blob: bytes) -> int:
    """Find where the key id ends, once the head has proved to be whole."""
    label = blob[5:6]
    if not label or not 1 <= label[0] <= KEY_ID_MAX or blob[0] < 1:
        raise UndecryptableError(_DAMAGED)
    end = 6 + label[0]
    if len(blob) < end or zlib.crc32(blob[:1] + blob[5:end]) != int.from_bytes(blob[1:5], "big"):
        raise UndecryptableError(_DAMAGED)
    return end
