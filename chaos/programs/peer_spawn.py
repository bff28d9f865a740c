"""A launcher by torch.multiprocessing.spawn, as its documentation has it: peer_spawn.py RANKS."""

import sys
from importlib import import_module

from chaos.programs.peer_rank import be

if __name__ == "__main__":
    import_module("torch.multiprocessing").spawn(be, nprocs=int(sys.argv[1]))
