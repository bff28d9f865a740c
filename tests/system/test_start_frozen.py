"""Applications whose `sys.executable` is not Python: frozen ones, and those that embed Python."""

import os
import stat

import pytest
from rankwork import whoami

import procession
from engines.localengine import LocalEngine
from procession import EngineError
from support import PYTHON, failure_of, run_python, write

APPLICATION = """
    #!{python}
    import os, sys
    with open({log!r}, "a") as log:
        log.write("begun\\n")
    if os.path.getsize({log!r}) > 20 * len("begun\\n"):
        os._exit(3)  # the brake that an application has not
    {frozen}
    sys.executable = __file__
    import procession
    try:
        procession.run(["true"], hang=procession.Hang(start=20))
    except procession.StartFailed as e:
        print(e)
        sys.exit(7)
"""


# Where it does not say what it is, it is started as an agent: once more, if the first one has
# ended before it is taken.
@pytest.mark.parametrize(("frozen", "counts"), [("sys.frozen = True", {1}), ("", {2, 3})])
def test_an_application_does_not_launch_itself_without_end(tmp_path, frozen, counts):
    log = tmp_path / "log"
    source = APPLICATION.format(python=PYTHON, log=str(log), frozen=frozen)
    application = write(tmp_path / "application.py", source)
    application.chmod(application.stat().st_mode | stat.S_IXUSR)
    done = run_python(application)
    assert done.returncode == 7, done.stderr
    assert len(log.read_text().splitlines()) in counts


def test_a_frozen_application_is_told_what_it_can_do(monkeypatch):
    monkeypatch.setattr("sys.frozen", True, raising=False)
    procession.forkserver.close()
    said = str(failure_of(whoami, procession.StartFailed))
    assert "sys.executable" in said
    assert "start_method='fork'" in said
    with pytest.raises(EngineError, match=r"sys\.executable"):
        procession.run(whoami, engine=LocalEngine(1))
    assert procession.run(os.getppid, start_method="fork", nproc=2) != []
