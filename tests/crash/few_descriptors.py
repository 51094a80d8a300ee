"""`strom` in a process that may have 256 files open, as after `ulimit -n 256`."""

import resource

from strom.cli import main

LIMIT = 256

if __name__ == "__main__":
    # The hard limit too: a broker raises the soft one as far as it may.
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    main()
