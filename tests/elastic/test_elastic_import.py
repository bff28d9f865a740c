"""What is imported, and when."""

import json

import pytest

import procession.elastic
from support import run_python


def imported_by(statement):
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    return set(json.loads(run_python("-c", code).stdout))


@pytest.mark.parametrize("module", ["", ".api", ".errors", ".redirects", ".tail_log"])
def test_torch_is_not_imported(module):
    """The original takes two seconds."""
    found = imported_by(f"import procession.elastic{module}")
    assert not {"torch", "numpy", "cloudpickle", "multiprocessing"} & found


def test_start_processes_can_be_patched(monkeypatch):
    """As a user's test would."""
    monkeypatch.setattr("procession.elastic.start_processes", lambda: "patched")
    monkeypatch.setattr("procession.elastic.Std", "patched")
    from procession.elastic import Std, start_processes

    assert (start_processes(), Std) == ("patched", "patched")
    monkeypatch.undo()
    assert procession.elastic.Std is procession.Std
