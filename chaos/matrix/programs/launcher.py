"""A launcher that is going to be killed: each rank has a daemon that ignores SIGTERM."""

import procession

RANK = "trap '' TERM; setsid sh -c 'exec sleep 1001' & exec sleep 1002"

if __name__ == "__main__":
    procession.start(["sh", "-c", RANK], nproc=2).wait()
