"""`python -m strom` is the command `strom`."""

from strom.cli import main

if __name__ == "__main__":
    main()
