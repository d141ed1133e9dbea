"""``python -m gsat`` is the command ``gsat``."""

from gsat.cli import main

if __name__ == "__main__":
    main()
