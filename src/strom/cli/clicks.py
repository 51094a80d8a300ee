"""Generated clicks for the demo: many users, few popular pages, as on a real site."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate

PAGES = (
    "/",
    "/menu",
    "/menu/pizza-margherita",
    "/menu/pizza-funghi",
    "/cart",
    "/menu/pasta",
    "/checkout",
    "/menu/tiramisu",
    "/orders",
    "/account",
    "/help",
    "/menu/drinks",
    "/reviews",
    "/about",
    "/jobs",
    "/imprint",
)
USERS = 50_000
# Zipf's law: the n-th page is visited 1/n as often as the first.
_PAGE_WEIGHTS = tuple(accumulate(1 / rank for rank in range(1, len(PAGES) + 1)))
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_CHUNK = 50_000


def invent_clicks(count: int) -> Iterator[list[tuple[bytes | None, bytes]]]:
    """Chunks of (key, value): the user, and JSON with user, page, ms and at; the same in every run."""
    chance = random.Random(2026)  # noqa: S311 - not for cryptography
    made = 0
    while made < count:
        number = min(_CHUNK, count - made)
        pages = chance.choices(PAGES, cum_weights=_PAGE_WEIGHTS, k=number)
        # Some users come often, most of them rarely.
        users = [int(USERS * chance.random() ** 3) for _ in range(number)]
        yield [
            _click(made + index, user, page, int(chance.lognormvariate(5, 0.8)))
            for index, (user, page) in enumerate(zip(users, pages, strict=True))
        ]
        made += number


def _click(index: int, user: int, page: str, milliseconds: int) -> tuple[bytes, bytes]:
    at = (_FIRST + timedelta(milliseconds=37 * index)).isoformat(timespec="milliseconds")
    name = f"user-{user}"
    value = f'{{"user":"{name}","page":"{page}","ms":{milliseconds},"at":"{at}"}}'
    return name.encode(), value.encode()
