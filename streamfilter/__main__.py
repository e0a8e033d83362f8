"""`python -m streamfilter`: the command, where no script of that name is on the path."""

import sys

from streamfilter.cli import main

sys.exit(main())
