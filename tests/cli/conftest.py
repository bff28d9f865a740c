"""What tests of the command share."""

import pytest

from support import write

HELLO = """
    import os, sys
    print("hello from", os.environ["RANK"])
    print("problem of", os.environ["RANK"], file=sys.stderr)
"""


@pytest.fixture
def hello(tmp_path):
    return write(tmp_path / "hello.py", HELLO)
