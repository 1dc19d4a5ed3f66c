"""Commands to copy: a request sent by hand, a replay through the API. No secret is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST_INLINE: Final = 8_192
"""Bytes of a body that a command carries itself; a larger one comes from a file."""

_STANDARD_KEY: Final = (
    'KEY=hexkey:$(printf %s "${WEBHOOK_SECRET#whsec_}" | openssl base64 -d -A'
    " | od -An -v -tx1 | tr -d ' \\n')"
)  # fmt: skip
_TEXT_KEY: Final = 'KEY="key:$WEBHOOK_SECRET"'
_DIGEST: Final = 'openssl dgst -sha256 -mac HMAC -macopt "$KEY"'


def quote(text: str) -> str:
    """Quote for a shell so that nothing in it is more than a character."""
    return "'" + text.replace("'", "'\\''") + "'"


def send_by_hand(
    *,
    url: str,
    scheme: str,
    signature_header: str,
    message_id: str,
    headers: Sequence[tuple[str, str]],
    body: str | None,
    file_name: str,
) -> str:
    """Write the commands that send a request again, signed anew with a secret of the reader's.

    Args:
        url: as people see it; what is masked in it is for the reader to fill in.
        scheme: of the signature.
        signature_header: where it goes.
        message_id: the ``webhook-id``.
        headers: the others, without the timestamp.
        body: exactly; None: it is read from a file, which is not written here.
        file_name: of that file.
    """
    is_inline = body is not None and len(body.encode()) <= MOST_INLINE
    masked = "  # complete what is masked" if "***" in url else ""
    body_out = 'printf %s "$BODY"' if is_inline else 'cat "$BODY"'
    lines = [
        "# export WEBHOOK_SECRET=… first: it is not shown here",
        f"URL={quote(url)}{masked}",
        f"BODY={quote(body or '' if is_inline else file_name)}",
        f"ID={quote(message_id)}; TS=$(date +%s)",
    ]
    if scheme == "standard":
        signed = 'printf "%s.%s." "$ID" "$TS"'
        encoded = f"{_DIGEST} -binary | openssl base64 -A"
        lines += [_STANDARD_KEY, f'SIGNATURE="v1,$({{ {signed}; {body_out}; }} | {encoded})"']
    else:
        signed = f'printf "{"t=" if scheme == "prefixed" else ""}%s." "$TS"'
        in_hex = f'{_DIGEST} -r | cut -d" " -f1'
        lines += [_TEXT_KEY, f'SIGNATURE="t=$TS,v1=$({{ {signed}; {body_out}; }} | {in_hex})"']
    lines.append(f'{body_out} | curl -sS -i -X POST "$URL" \\')
    lines += [f"  -H {quote(f'{name}: {value}')} \\" for name, value in headers]
    lines += [
        '  -H "webhook-id: $ID" -H "webhook-timestamp: $TS" \\',
        f'  -H "{signature_header}: $SIGNATURE" \\',
        "  --data-binary @-",
    ]
    return "\n".join(lines)


def replay_through_api(base_url: str, delivery_id: object) -> str:
    """Write the command that replays a delivery."""
    return "\n".join(
        [
            f"curl -sS -X POST {quote(f'{base_url}/api/v1/deliveries/{delivery_id}/replay')} \\",
            '  -H "Authorization: Bearer $FENCEPOST_TOKEN" -H "Content-Type: application/json" \\',
            '  --data \'{"reason": ""}\'',
        ]
    )
