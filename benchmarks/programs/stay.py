import sys

from functions import stay

stay(sys.argv[1])
