"""Jobs whose driver and node processes run in different Pythons.

Imports nothing that is built for one Python alone: the other one imports this file, too.
"""

import os

from engines.localengine import LocalEngine


class OtherPython(LocalEngine):
    """Node processes run in another Python than their driver."""

    def __init__(self, slots, python, path=None):
        super().__init__(slots, env={"PYTHONPATH": path or os.environ["PYTHONPATH"]})
        self.python = python

    def start(self, command, tell):
        super().start(command.__replace__(argv=(self.python, *command.argv[1:])), tell)
