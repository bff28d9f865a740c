"""Programs start in two ways: by `system.vfork`, and by a fork where that cannot be done."""

import os

from support import run_python, write


def test_commands_where_programs_can_only_be_forked(tmp_path):
    """On a machine for which `system.vfork` is not made, everything is the same."""
    asked = tmp_path / "asked"
    write(
        tmp_path / "sitecustomize.py",
        f"""
        import os
        class Other:
            machine = "other"
        def uname():
            open({str(asked)!r}, "w").close()
            return Other
        os.uname = uname
        """,
    )
    main = write(
        tmp_path / "main.py",
        """
        import procession
        script = 'echo "$RANK $X $(pwd) $(umask)"'
        procession.run(["sh", "-c", script], nproc=2, cwd="/", env={"X": "5"})
        try:
            procession.run(["sh", "-c", "exit 3"])
        except procession.GroupFailed as e:
            print(e.cause.rank, e.cause.exit.code)
        """,
    )
    done = run_python(main, env={**os.environ, "PYTHONPATH": str(tmp_path)}, umask=0o27)
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == ["0 3", "[0] 0 5 / 0027", "[1] 1 5 / 0027"]
    assert asked.exists()
