"""Becomes a command with broken standard streams: ``python -m tests.process.streams HOW COMMAND``.

HOW names streams and what becomes of them: ``0closed``, ``1gone`` (a pipe whose reader has gone).
"""

import os
import sys

if __name__ == "__main__":
    for each in sys.argv[1].split(","):
        number = int(each[0])
        if each.endswith("gone"):
            reading, writing = os.pipe()
            os.dup2(writing, number)
            os.close(reading)
            os.close(writing)
        else:
            os.close(number)
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
