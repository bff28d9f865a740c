"""The first launch of a process: its forkserver starts while the rest is imported."""

from support import run_python

SEVERAL = """
import threading
import procession

def launch():
    procession.run(["true"], nproc=2)
    done.append(1)

done = []
threads = [threading.Thread(target=launch) for _ in range(3)]
for each in threads:
    each.start()
launch()
for each in threads:
    each.join()
procession.run(["true"])
print(len(done))
"""


def test_the_first_launch_may_be_that_of_several_threads():
    done = run_python("-c", SEVERAL)
    assert (done.stdout, done.stderr) == ("4\n", "")
