"""The first launch of a process: its forkserver starts while the rest is imported."""

import pytest

from support import run_python

pytestmark = pytest.mark.timeout(60)


def first(text):
    """Run this in a process that has launched nothing; gives what it says."""
    done = run_python("-c", f"import os\nimport threading\nimport procession\n{text}")
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_the_first_launch_may_be_that_of_several_threads():
    said = first("""
def launch():
    procession.run(['true'], nproc=2)
    done.append(1)
done = []
threads = [threading.Thread(target=launch) for _ in range(3)]
for each in threads:
    each.start()
launch()
for each in threads:
    each.join()
procession.run(['true'])
print(len(done))
""")
    assert said == ["4"]
