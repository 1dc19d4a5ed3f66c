"""What the browser tests promise, by number; a test's mark ``check`` says which it is for."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

CHECKS: Final = MappingProxyType(
    {
        1: "no page holds what the policy blocks, asks elsewhere, or says anything on the console",
        2: "what happens is on the screen within two seconds, without a reload",
        3: "a refresh moves nothing that somebody is using",
        4: "a pause stops every request, and its end shows what is true",
        5: "a server that goes away and comes back loses the page nothing",
        6: "open streams cannot starve the pages",
        7: "a timeline draws to scale what the API tells",
        8: "an address is a whole view: for somebody else, for Back and for a reload",
        9: "paging shows every row once while rows come and go",
        10: "a replay is of exactly what was counted",
        11: "nothing gets around the question before a replay",
        12: "a replay goes on without its page, and ends when it is told to",
        13: "everything goes with the keyboard alone, and no key surprises",
        14: "axe-core finds nothing on any page, and nobody is told more than they asked",
        15: "what is copied is exact, and text is never more than text",
    }
)
