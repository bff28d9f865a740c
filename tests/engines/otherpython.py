"""Jobs whose driver and agents run in different Pythons.

Imports nothing that is built for one Python alone: the other one imports this file, too.
"""

import os

from engines.localengine import LocalEngine


class OtherPython(LocalEngine):
    """Agents run in another Python than their driver."""

    def __init__(self, slots, python, path=None):
        super().__init__(slots, env={"PYTHONPATH": path or os.environ["PYTHONPATH"]})
        self.python = python

    def start(self, agent, tell):
        super().start(agent.__replace__(argv=(self.python, *agent.argv[1:])), tell)
