"""A process whose forks import a program: cold, or observed with a record of what decided it.

Run by its path; it finds `seams` beside its directory. Reads lines of JSON from stdin: {"path": to
be put before `sys.path`, "module": its name, "observed": whether}; writes the length of the answer,
a line, and the answer by marshal: (what `module.value()` gives, record or None).
"""

import json
import marshal
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def imported(wish):
    from seams.agent import Observer, record

    sys.path[:] = [*wish["path"], *sys.path]
    sys.path_importer_cache.clear()
    observer = Observer() if wish["observed"] else None
    if observer is not None:
        observer.begin()
    try:
        value = __import__(wish["module"]).value()
    except BaseException as e:
        value = f"{type(e).__name__}: {e}"
    if observer is None:
        return value, None
    observer.end()
    return value, record(observer, list(sys.modules), os.environ, lowest=True)


def main():
    sys.path[:] = [os.path.dirname(HERE), *(p for p in sys.path if p != HERE)]
    import importlib.metadata  # noqa: F401 (as torch has it)

    import seams.agent

    seams.agent.Observer, seams.agent.record  # noqa: B018 (imported before the forks)
    for line in sys.stdin:
        sys.stdout.flush()
        read_end, write_end = os.pipe()
        pid = os.fork()
        if not pid:
            with open(write_end, "wb") as f:
                f.write(marshal.dumps(imported(json.loads(line))))
            os._exit(0)
        os.close(write_end)
        with open(read_end, "rb") as f:
            answer = f.read()
        os.waitpid(pid, 0)
        sys.stdout.buffer.write(b"%d\n%b" % (len(answer), answer))
        sys.stdout.buffer.flush()


main()
