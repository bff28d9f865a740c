"""Job lines of torchrun, run by the real one in children of one process that has imported torch.

To be run as a program: its standard input is a JSON list of jobs, each a dict of `words`, `env`
(added variables), `cwd` and `said` (a file for its output). All run at the same time.
"""

import json
import os
import sys


def main():
    jobs = json.load(sys.stdin)
    from torch.distributed import run

    children = {}
    for job in jobs:
        if not (pid := os.fork()):
            code = 70
            try:
                fd = os.open(job["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
                os.chdir(job["cwd"])
                os.environ.update(job["env"])
                sys.path[0] = job["cwd"]
                run.main(job["words"])
                code = 0
            except SystemExit as e:
                code = e.code
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code if isinstance(code, int) else 1)
        children[pid] = len(children)
    codes = [0] * len(jobs)
    for pid, number in children.items():
        codes[number] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
