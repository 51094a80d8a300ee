"""`strom start` with bugs planted: run as `python -m tests.history.buggy_broker start …`."""

from strom.cli import main
from tests.history.group_bugs import BUGS as GROUP_BUGS
from tests.history.harsh_world import MISFORTUNES
from tests.history.planting import planted_names
from tests.history.storage_bugs import BUGS as STORAGE_BUGS
from tests.history.transaction_bugs import BUGS as TRANSACTION_BUGS

PLANTS = {**MISFORTUNES, **STORAGE_BUGS, **GROUP_BUGS, **TRANSACTION_BUGS}

if __name__ == "__main__":
    for name in planted_names():
        PLANTS[name]()
    main()
