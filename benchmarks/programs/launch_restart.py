"""Run restart_rank.py with one restart: launch_restart.py RANKS DIRECTORY"""

import sys
from pathlib import Path

import procession

if __name__ == "__main__":
    script = procession.Script(str(Path(__file__).with_name("restart_rank.py")), (sys.argv[2],))
    procession.run(script, nproc=int(sys.argv[1]), restart=procession.Restart(max=1))
