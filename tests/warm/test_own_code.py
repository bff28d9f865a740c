"""Nothing is kept that has imported a user's module, or run a shared set-up."""

import os
import resource

import pytest
from keeping import kept_by_test

import procession
from support import run_procession, write

READS = """
import os, sys
WHAT = [os.environ.get("FOO"), open("data.txt").read(), os.path.realpath("link"),
        len(os.environ), os.listdir("listed")]
"""


# What a library may read at its import: limits, and how many threads it may have.
LIMITS = """
import os, resource
mask = os.umask(0)
os.umask(mask)
WHAT = os.environ.get("OMP_NUM_THREADS"), resource.getrlimit(resource.RLIMIT_NOFILE)[0], mask
"""
# One after the other changes, since a change of one that is noticed would hide those of others.
VALUES = ("2", 600, 0o022), ("2", 601, 0o022), ("2", 601, 0o027), ("3", 601, 0o027)


@pytest.fixture
def kept():
    yield from kept_by_test()


@pytest.fixture
def change(monkeypatch):
    """Change for this process, and those that it starts, what `LIMITS` reads."""
    limits, mask = resource.getrlimit(resource.RLIMIT_NOFILE), os.umask(0o022)

    def change(threads, files, mask):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, limits[1]))
        os.umask(mask)

    yield change
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    os.umask(mask)


def warm(script, *options, **more):
    """Run a script that prints one line; gives it, why it started cold, and why nothing is kept."""
    done = run_procession("run", "--warm", "-n", "1", *options, script, timeout=60, **more)
    assert done.returncode == 0, done.stderr
    reasons = [
        done.stderr.partition(words)[2].partition(" [P406]")[0]
        for words in ("starts cold: ", "nothing is kept: ")
    ]
    return done.stdout.strip(), *reasons


def what_was_read():
    import reads_things

    return reads_things.WHAT


def limits_that_were_read():
    import reads_limits

    return reads_limits.WHAT


def ranks_parent():
    return os.getppid()


@pytest.mark.timeout(200)
def test_a_module_of_the_user_is_imported_anew_by_each_launch_of_a_process(tmp_path, monkeypatch):
    write(tmp_path / "reads_things.py", READS)
    write(tmp_path / "data.txt", "a")
    (tmp_path / "listed").mkdir()
    (tmp_path / "link").symlink_to("one")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def said(**env):
        return procession.run(what_was_read, nproc=1, preload=["reads_things"], env=env)[0]

    foo, data, link, variables, names = said()
    assert (foo, data, link, names) == (None, "a", str(tmp_path / "one"), [])
    write(tmp_path / "data.txt", "b")
    assert said()[1] == "b"
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("two")
    assert said()[2] == str(tmp_path / "two")
    write(tmp_path / "listed" / "name", "")
    assert said()[4] == ["name"]
    assert said(FOO="1")[:1] == ["1"]
    assert said(ANY="1")[3] == variables + 1


@pytest.mark.timeout(100)
def test_what_has_imported_packages_of_the_list_alone_is_used_again(monkeypatch, tmp_path):
    one, other = (procession.run(ranks_parent, nproc=1, preload=["colorsys"]) for _ in range(2))
    assert one == other
    # A local module of the same name is the user's.
    write(tmp_path / "colorsys.py", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    one, other = (procession.run(ranks_parent, nproc=1, preload=["colorsys"]) for _ in range(2))
    assert one != other


@pytest.mark.timeout(200)
def test_a_module_of_the_user_is_kept_for_no_other_command(tmp_path, kept):
    own = write(tmp_path / "own" / "ownmodule.py", "WHAT = 1\n")
    script = write(tmp_path / "a.py", "import ownmodule\nprint(ownmodule.WHAT)\n")
    env = {**os.environ, "PYTHONPATH": str(own.parent)}
    why = "it has imported ownmodule, which is not on the list of packages that may be kept"
    for what in "12":
        write(own, f"WHAT = {what}{' ' * int(what)}\n")  # its compiled file is told by its size
        said = warm(script, "--preload", "decimal,ownmodule", env=env)
        assert said == (what, "nothing is kept yet", why)
    assert not kept.list()


@pytest.mark.timeout(200)
def test_a_shared_set_up_is_run_by_each_command(tmp_path, kept):
    write(tmp_path / "data.py", "def load():\n    return open('train.txt').read()\n")
    text = "import procession\nfrom data import load\nprint(procession.once(load))\n"
    script = write(tmp_path / "train.py", text)
    for what in "ab":
        write(tmp_path / "train.txt", what)
        said = warm(script, "--shared", "data:load", "--preload", "decimal", cwd=tmp_path)
        assert said == (what, "nothing is kept yet", "it has run the shared set-up")
    assert not kept.list()


@pytest.mark.timeout(200)
@pytest.mark.parametrize("module", ["colorsys", "reads_limits"])
def test_limits_of_a_launch_are_its_own(tmp_path, monkeypatch, change, module):
    """Whether the agent reads them, or each rank of an agent that is used again."""
    write(tmp_path / "reads_limits.py", LIMITS)
    monkeypatch.syspath_prepend(str(tmp_path))
    for values in VALUES:
        change(*values)
        assert procession.run(limits_that_were_read, nproc=1, preload=[module]) == [values]


@pytest.mark.timeout(200)
def test_a_package_of_the_list_that_has_changed_is_imported_anew(tmp_path, kept):
    """A stand-in for one. What it has read of variables counts as well."""
    source = "import os\nos.environ.get('MPMATH_READS')\n"
    package = write(tmp_path / "site-packages" / "mpmath.py", source)
    script = write(tmp_path / "a.py", "import mpmath\nprint(mpmath.__name__)\n")
    env = {**os.environ, "PYTHONPATH": str(package.parent)}

    def cold(**more):
        return warm(script, "--preload", "mpmath", env={**env, **more})[1:]

    assert cold() == ("nothing is kept yet", "")
    assert cold(NOBODY_READS="1") == ("", "")
    os.utime(package)
    assert cold() == (f"{package} changed", "")
    assert cold(MPMATH_READS="1") == ("the variable MPMATH_READS changed", "")
