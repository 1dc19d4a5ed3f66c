"""The line between a program and PostgreSQL, which a test cuts where it wants.

``with Line(url) as line: … line.url …``. Everything passes until the test says otherwise.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

_READY = b"Z\x00\x00\x00\x05I"
"""ReadyForQuery, outside a transaction: what came before it is committed."""


class Line:
    """Stands between a program and the server's socket.

    Args:
        url: of the database, by a Unix socket.
    """

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        port = str(parts.get("port") or 5432)
        self._server = str(Path(str(parts["host"])) / f".s.PGSQL.{port}")
        self._folder = tempfile.TemporaryDirectory(prefix="line-")
        self.url = f"{url.partition('?')[0]}?host={quote(self._folder.name, safe='')}&port={port}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._folder.name) / f".s.PGSQL.{port}"))
        self._listener.listen(64)
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self.is_cut = False
        self._then_cut = False
        self._phrases: list[bytes] = []
        self.severed: list[bytes] = []
        """The phrases whose answers were lost."""
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_the_answer_to(self, phrase: str, *, then_cut: bool = False) -> None:
        """Let the next statement with this text commit, and end its connection before its answer.

        Args:
            phrase: words that no other statement has.
            then_cut: refuse new connections from then on.
        """
        self._phrases.append(phrase.encode())
        self._then_cut = then_cut

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        self.is_cut = True
        self._end_all()

    def mend(self) -> None:
        """Let new connections through again."""
        self.is_cut = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_cut:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                with self._guard:
                    self._open |= {client, server}
                lost: list[bytes] = []
                for source, to, pump in ((client, server, self._ask), (server, client, self._tell)):
                    threading.Thread(target=pump, args=(source, to, lost), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, lost: list[bytes]) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(1 << 20):
                for phrase in list(self._phrases):
                    if phrase in piece:
                        self._phrases.remove(phrase)
                        lost.append(phrase)
                server.sendall(piece)
        self._end(client, server)

    def _tell(self, server: socket.socket, client: socket.socket, lost: list[bytes]) -> None:
        end = b""
        with contextlib.suppress(OSError):
            while piece := server.recv(1 << 20):
                end = (end + piece)[-len(_READY) :]
                if not lost:
                    client.sendall(piece)
                elif end == _READY:
                    self.is_cut = self._then_cut
                    self.severed += lost
                    break
        self._end(client, server)

    def _end(self, *sockets: socket.socket) -> None:
        with self._guard:
            self._open -= set(sockets)
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _end_all(self) -> None:
        with self._guard:
            sockets = list(self._open)
        self._end(*sockets)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self._end_all()
        self._folder.cleanup()
