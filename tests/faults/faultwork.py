"""Programs of ranks that fail at a chosen stage of their life, in a chosen way.

Only rank 1 fails. Rank 0 waits for the end of the group if the fault must end it.
"""

import atexit
import os
import signal
import threading


def strike(way):
    """Fail now, in rank 1."""
    if os.environ.get("RANK") != "1":
        return
    if way == "exception":
        raise ArithmeticError("on purpose")
    if way == "exit":
        os._exit(1)
    if way == "stop":
        note()
    os.kill(os.getpid(), {"kill": 9, "segv": 11, "stop": signal.SIGSTOP}[way])


def note():
    """Tell the test which process is about to be stopped."""
    with open(os.environ["STOPPED"], "w") as f:
        f.write(f"{os.getpid()}\n")


class Program:
    """Callable; fails in the function itself, or later."""

    def __init__(self, stage, way, fatal):
        self.stage, self.way, self.fatal = stage, way, fatal

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.stage == "unpickle function":
            strike(self.way)

    def __call__(self, _argument):
        if os.environ["RANK"] == "0":
            while self.fatal:
                signal.pause()
            return "good"
        return getattr(self, self.stage.replace(" ", "_"), self.function)()

    def function(self):
        strike(self.way)
        return "good"

    def value(self):
        return Value(self.way)

    def exit(self):
        atexit.register(strike, self.way)
        return "good"

    def thread(self):
        main = threading.main_thread()

        def later():
            main.join()  # it has returned, its value is told, and it waits for this thread
            strike(self.way)

        threading.Thread(target=later).start()
        return "good"

    def child(self):
        if not (pid := os.fork()):
            strike(self.way)
            os._exit(0)
        os.waitpid(pid, 0)
        return "good"


class Argument:
    """Fails when it is unpickled."""

    def __init__(self, stage, way):
        self.stage, self.way = stage, way

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.stage == "unpickle arguments":
            strike(self.way)


class Value:
    """Fails when it is pickled."""

    def __init__(self, way):
        self.way = way

    def __reduce__(self):
        strike(self.way)
        return str, ("good",)
