"""The command, as a script and as `python -m streamfilter`.

Until the verb's own code is imported, Ctrl-C ends the process as the system does it: a handler of
Python's would raise in the middle of some library's import, and print its traceback.
"""

import signal
import sys


def main() -> int:
    """Run one verb and return the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from streamfilter import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
