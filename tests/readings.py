"""Pages of figures, read for what they say."""

from __future__ import annotations

import html
import re

from flask.testing import FlaskClient

_TILE = re.compile(
    r'data-testid="tile-([a-z-]+)">.*?<a class="value" href="([^"]*)">(.*?)</a>', re.DOTALL
)


def tiles(page: str) -> dict[str, tuple[str, str]]:
    """Each tile's value and where it leads to."""
    return {
        name: (re.sub(r"<[^>]*>", "", value).split()[0], html.unescape(url))
        for name, url, value in _TILE.findall(page)
    }


def rows_of(page: str, id_: str) -> list[list[str]]:
    """The cells of a chart's table."""
    table = page.split(f'id="{id_}"', 1)[1].split("</table>", 1)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1:]
    return [re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", row) for row in rows]


def matches(client: FlaskClient, url: str) -> str:
    """How many a list says that it has."""
    found = re.search(r"([\d,]+) match", client.get(url).text)
    assert found is not None, url
    return found[1]
