"""`python -m guided`: the command line."""

import sys

from guided.cli import main

sys.exit(main())
