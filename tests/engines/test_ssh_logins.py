"""Log-ins of hosts that never come to a node process, by programs that take the place of ssh."""

import pytest

import procession
from seams.ssh import SshEngine
from seams.values import StartFailed


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """Let a shell script be what is found as ssh; its last but one argument is the host."""

    def put(script):
        path = tmp_path / "ssh"
        path.write_text(f'#!/bin/bash\nhost="${{@: -2:1}}"\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return put


@pytest.mark.parametrize("floods", ["yes garbage", r"tr '\0' x < /dev/zero"])
def test_a_log_in_that_prints_without_end_is_ended(ssh, floods, capfd):
    ssh(f"exec {floods}")
    with pytest.raises(StartFailed, match="h1 was killed by signal 9: its log-in prints without"):
        procession.run(print, engine=SshEngine("h1"), nproc=1)
    assert len(capfd.readouterr().err) < 1 << 20


def test_what_another_host_has_printed_is_not_the_cause(ssh):
    ssh("""
        [ $host = h1 ] && echo Welcome
        exec cat > /dev/null
    """)
    with pytest.raises(StartFailed, match="processes came within 1 s; ssh said last: h1: Wel"):
        procession.run(print, engine=SshEngine("h1,h2"), nproc=1, hang=procession.Hang(start=1.0))
