"""Where an interpreter that procession starts begins: `python entry.py MODULE:FUNCTION WORD...`.

This file is run by its path, never imported. `python -m` and `python -c` put the current directory
first on `sys.path`, where a user's `json.py` or `platform.py` would be taken for the standard
library's. With a script, Python puts the script's own directory there instead, and that one is
taken away before anything is imported.

The function is called without arguments. It finds the words in `sys.argv[1:]`.
"""

import sys  # built in: no file can take its place

if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # the directory of this file
# The package alone is looked for beside this file: its `__init__` imports nothing else.
sys.path.insert(0, __file__.rpartition("/procession/")[0])
__import__("procession")
del sys.path[0]
_module, _, _function = sys.argv.pop(1).partition(":")
getattr(__import__(_module, fromlist=(_function,)), _function)()
