"""Launch ranks that have torch and stay: launch_stay.py procession|spawn RANKS DIRECTORY"""

import sys

import torch.multiprocessing
from functions import stay

import procession

if __name__ == "__main__":
    way, n, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if way == "procession":
        procession.run(stay, args=(directory,), nproc=n)
    else:
        torch.multiprocessing.spawn(stay, args=(directory,), nprocs=n)
