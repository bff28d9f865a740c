"""A rank that says nothing: leaves a file, named by its pid, in the given directory, and sleeps."""

import os
import signal
import sys

os.close(os.open(os.path.join(sys.argv[1], str(os.getpid())), os.O_CREAT))
signal.pause()
