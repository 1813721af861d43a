"""``python -m biaslab.cli``: the command line without an installed script."""

import sys

from biaslab.cli import main

if __name__ == "__main__":
    sys.exit(main())
