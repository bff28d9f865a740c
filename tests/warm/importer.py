"""A process whose forks import a program: cold, or watched, with what decided it.

Run by its path; it finds `seams` beside its directory. Reads lines of JSON from stdin: {"path": to
be put before `sys.path`, "module": its name, "watched": whether}; writes the length of the answer,
a line, and the answer by pickle: (what `module.value()` gives, `Imported` or None).
"""

import json
import os
import pickle
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def imported(wish):
    from seams.agent import Imported

    sys.path[:] = [*wish["path"], *sys.path]
    sys.path_importer_cache.clear()
    found, failed = Imported(os.environ) if wish["watched"] else None, []
    if found is not None:
        found.begin_recording()
    try:
        value = __import__(wish["module"]).value()
    except BaseException as e:
        value = f"{type(e).__name__}: {e}"
        failed.append(wish["module"])
    if found is not None:
        found.end(os.environ, failed)
    return value, found


def main():
    sys.path[:] = [os.path.dirname(HERE), *(p for p in sys.path if p != HERE)]
    import importlib.metadata  # noqa: F401 (as torch has it)

    import seams.agent

    seams.agent.Imported  # noqa: B018 (imported before the forks)
    for line in sys.stdin:
        sys.stdout.flush()
        read_end, write_end = os.pipe()
        if not (pid := os.fork()):
            with open(write_end, "wb") as f:
                f.write(pickle.dumps(imported(json.loads(line))))
            os._exit(0)
        os.close(write_end)
        with open(read_end, "rb") as f:
            answer = f.read()
        os.waitpid(pid, 0)
        sys.stdout.buffer.write(b"%d\n%b" % (len(answer), answer))
        sys.stdout.buffer.flush()


main()
