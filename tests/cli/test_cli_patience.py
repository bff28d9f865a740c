"""An experiment tracker of rank 0 gets to write what it has when another rank fails."""

import pytest
from commandline import run

from support import write

TRACKED = """
import os, pathlib, socket, sys, time

folder, how = pathlib.Path(sys.argv[1]), sys.argv[2]
if os.environ["RANK"] == "1":
    while not (folder / "peer").exists():
        time.sleep(0.002)
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(str(folder / "peer"))
    peer.sendall(b"1")
    raise ValueError("no such batch")

losses = ["0.5"]
try:
    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind(str(folder / "new"))
        listens.listen()
        os.rename(folder / "new", folder / "peer")
        peer, _ = listens.accept()
        while peer.recv(1):
            pass
        if how == "hangs":  # as in a collective operation that does not notice
            time.sleep(600)
    raise ConnectionError("rank 1 is gone")
finally:
    time.sleep(0.5)  # it sends what is left
    (folder / "losses").write_text("\\n".join(losses))
"""


@pytest.mark.parametrize(
    ("options", "how"),
    [(["--patience", "60"], "notices"), (["--stop-signal", "SIGINT"], "hangs")],
    ids=["patience", "stop signal"],
)
def test_a_tracker_writes_what_it_has_when_another_rank_failed(tmp_path, options, how):
    script = write(tmp_path / "tracked.py", TRACKED)
    done = run("-n", 2, *options, script, tmp_path, how, timeout=100)
    assert done.returncode == 1
    assert "rank 1 of 2" in done.stderr.partition("failed: ")[2].partition("\n")[0]
    assert (tmp_path / "losses").read_text() == "0.5"
