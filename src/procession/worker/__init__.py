"""What runs in a rank before, around and after its program.

May import system and the standard library, nothing else: every rank pays for each import. Start
reading at `bootstrap`.
"""

# What every rank needs, and what describes a failure; in small portions, for an agent.
NEEDED = ("operator", "collections", "functools", "enum", "signal", "weakref", "re", "pickle",
          "procession.worker.bootstrap", "procession.worker.breakpoints", "importlib.machinery",
          "faulthandler", "json", "tokenize", "traceback",
          "procession.worker.description")  # fmt: skip
