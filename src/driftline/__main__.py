"""Run the command line as ``python -m driftline``."""

from driftline.cli import main

if __name__ == "__main__":
    main()
