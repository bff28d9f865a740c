"""A session without tests in ranks pays next to nothing for the plugin."""

from support import run_python

PROGRAM = """
import sys
import pytest
import procession.pytest.plugin
print(sorted(n for n in sys.modules if n.startswith("procession.")))
print("torch" in sys.modules)
"""


def test_the_plugin_imports_neither_torch_nor_the_group_code():
    done = run_python("-c", PROGRAM, timeout=50)
    assert done.returncode == 0
    ours, torch = done.stdout.splitlines()
    names = ("", ".fixtures", ".marks", ".plugin", ".sharedfixtures")
    assert ours == str([f"procession.pytest{name}" for name in names])
    assert torch == "False"
