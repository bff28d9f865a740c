"""Start and reap many /bin/true, twice; prints the seconds of each.

launch_commands.py procession|elastic RANKS
"""

import json
import sys
import tempfile
import time


def by_procession(n):
    import procession

    def launch():
        procession.run(["/bin/true"], nproc=n)

    return launch


def by_elastic(n):
    import elastic

    def launch():
        with tempfile.TemporaryDirectory() as logs:
            started = elastic.start(n, logs, "/bin/true")
            started.wait(period=0.001)  # its default looks once a second
            started.close()

    return launch


if __name__ == "__main__":
    launch = {"procession": by_procession, "elastic": by_elastic}[sys.argv[1]](int(sys.argv[2]))
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        launch()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds))
