"""Launchers that have found each other are one job: one fate, one cause, sizes that change."""

import contextlib
import json
import os
import signal
import socket
import sys

import pytest
from commandline import KEY, PATIENCE, STEPS, Watched

from conftest import until
from seams.system import free_port
from support import write

pytestmark = pytest.mark.timeout(500)


def words(port, nnodes, *rest, job="J", conf="join_timeout=60"):
    return ["run", "--lease", "40", "--nnodes", nnodes, "--rdzv-id", job, "--rdzv-backend", "c10d",
            "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-conf", conf, *rest]  # fmt: skip


def launcher(*line, node=0, **env):
    """Start a launcher. node: its address puts it in order: 127.0.0.1, 127.0.0.2 and so on."""
    run, *rest = line
    return Watched(run, "--local-addr", f"127.0.0.{node + 1}", *rest, env={**os.environ, **env})


def test_one_cause_everywhere_and_what_cannot_join(tmp_path):
    """Also: strangers, another id, another secret and another size keep nobody out."""
    script = write(tmp_path / "fail.py", """
        import os, time
        here = os.path.dirname(__file__)
        open(here + "/there" + os.environ["RANK"], "w").close()
        while os.environ["RANK"] != "3" or not os.path.exists(here + "/there0"):
            time.sleep(0.01)
        raise ValueError("no such batch")
    """)  # fmt: skip
    port = free_port()
    line = words(port, 2, "-n", "2", script)
    short = "join_timeout=6"
    with contextlib.ExitStack() as open_:
        first = open_.enter_context(launcher(*line, **KEY))

        def connected():
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), 5)
            return None

        strangers = [until(connected, "somebody listens", PATIENCE)]
        strangers += [socket.create_connection(("127.0.0.1", port), 5) for _ in range(200)]
        for each in strangers:
            open_.callback(each.close)
            with contextlib.suppress(OSError):
                each.sendall(os.urandom(300))
        others = [
            open_.enter_context(launcher(*words(port, 2, script, job="K", conf=short), **KEY)),
            open_.enter_context(launcher(*words(port, 2, script, conf=short))),
        ]
        larger = open_.enter_context(launcher(*words(port, 3, "-n", "2", script), **KEY))
        assert larger.end(PATIENCE) == 1
        assert b"started with --nnodes 3, and 127.0.0.1:%d with 2" % port in larger.err
        for each in others:
            assert each.end(PATIENCE) == 1
            assert b"no rendezvous at 127.0.0.1" in each.err
        assert b"no secret is set: everyone who reaches" in others[1].err
        assert bytes(first.err).count(b"127.0.0.1 was refused: ") == 1
        second = open_.enter_context(launcher(*line, node=1, **KEY))
        assert (first.end(PATIENCE), second.end(PATIENCE)) == (1, 1)
    for each in (first, second):
        text = bytes(each.err).decode()
        assert "fail.py failed: rank 3 of 4 (pid " in text
        assert ", node 1) raised ValueError: no such batch" in text
        assert "  rank 0 (pid " in text.partition("ended by the group")[2]
        assert "no secret" not in text


def test_a_restart_is_of_the_whole_job_and_counts_for_it(tmp_path):
    script = write(tmp_path / "again.py", """
        import os, sys, time
        count = os.environ["TORCHELASTIC_RESTART_COUNT"]
        print("rank", os.environ["RANK"], "restarts", count, flush=True)
        open(f"{sys.argv[1]}-{os.environ['RANK']}-{count}", "w").close()
        if os.environ["RANK"] == count:
            while not os.path.exists(f"{sys.argv[1]}-{1 - int(count)}-{count}"):
                time.sleep(0.01)  # else the other is ended before it has written its line
            raise SystemExit(7)
        time.sleep(100)
    """)  # fmt: skip
    line = words(free_port(), 2, "--max-restarts", "1", script, tmp_path / "seen")
    with launcher(*line, **KEY) as first, launcher(*line, node=1, **KEY) as second:
        assert (first.end(PATIENCE), second.end(PATIENCE)) == (7, 7)
    said = sorted((first.out + second.out).decode().splitlines())
    # A machine with one rank has prefixes, too.
    assert said == [f"[{rank}] rank {rank} restarts {n}" for rank in (0, 1) for n in (0, 1)]
    for each in (first, second):
        assert b"again.py failed: rank 1 of 2 " in each.err


def test_sizes_that_change(tmp_path):
    """From 1 to 3 to 2 machines: no step is counted twice, and nothing counts as a failure."""
    script, log = write(tmp_path / "steps.py", STEPS), tmp_path / "log"
    hold = tmp_path / "log.hold"
    hold.touch()
    line = words(free_port(), "1:3", script, log, "50", conf="last_call_timeout=0.2")
    with launcher(*line, **KEY) as first:
        first.shows(b"rank 0 of 1 from step False, 0", patience=PATIENCE)
        with launcher(*line, node=1, **KEY) as second, launcher(*line, node=2, **KEY) as third:
            first.shows(b"rank 0 of 3 from step True, 0", patience=PATIENCE)
            third.shows(b" of 3 from step True, 0", patience=PATIENCE)
            third.signal(signal.SIGTERM)
            first.shows(b"rank 0 of 2 from step True, 0", patience=PATIENCE)
            assert third.end(PATIENCE) == 143
            second.shows(b"rank 1 of 2 from step True, 0", patience=PATIENCE)
            # Until the host knows that the ranks of both run, it does not say that one went.
            seen = log.read_text().count(" 2\n")
            until(lambda: log.read_text().count(" 2\n") > seen + 50, "both run", PATIENCE)
            second.signal(signal.SIGKILL)
            until(lambda: first.out.count(b"rank 0 of 1 from") == 2, "it goes on alone", PATIENCE)
            hold.unlink()
            assert first.end(PATIENCE) == 0, first.err
            assert second.end(PATIENCE) == -signal.SIGKILL
    assert b"a node came: all ranks start again" in first.err
    assert b"a node left: all ranks start again" in first.err
    assert b"a node went: all ranks start again" in first.err
    steps = [each.split() for each in log.read_text().splitlines()]
    counted = dict(steps)  # a step that was written, but not kept, is done again
    assert [*map(int, counted)] == [*range(1, len(counted) + 1)]
    assert {size for _, size in steps} == {"1", "2", "3"}
    assert len(steps) - len(counted) <= 4


CALLS = """
import os, sys
import procession

def work(bad):
    if os.environ["RANK"] == bad:
        raise ValueError("no such batch")
    return os.environ["RANK"] + " of " + os.environ["WORLD_SIZE"]

where = {"endpoint": sys.argv[1], "id": sys.argv[4], "local_addr": sys.argv[2], "join_timeout": 60}
try:
    print(procession.run(work, args=(sys.argv[3],), nproc=2, nnodes=2, rendezvous=where, lease=40))
except procession.GroupFailed as e:
    print(e.cause.rank, repr(e.__cause__))
"""


def test_programs_that_are_started_once_on_each_machine(tmp_path):
    """Each gets the values of its own ranks; all get the cause, and one its exception."""
    script, port = write(tmp_path / "calls.py", CALLS), free_port()
    env = {**os.environ, **KEY}
    for bad, first, second in (
        ("none", b"['0 of 4', '1 of 4']\n", b"['2 of 4', '3 of 4']\n"),
        ("3", b"3 None\n", b"3 ValueError('no such batch')\n"),
    ):
        called = [
            Watched(f"127.0.0.1:{port}", f"127.0.0.{node + 1}", bad, bad,
                    program=[sys.executable, script], env=env)
            for node in (0, 1)
        ]  # fmt: skip
        with called[0], called[1]:
            for each, said in zip(called, (first, second), strict=True):
                assert each.end(PATIENCE) == 0, each.err
                assert bytes(each.out) == said


STOPS = """
import os, sys, time
import procession

def work(place):
    open(f"{place}/{os.environ['RANK']}", "w").close()
    time.sleep(1000)

where = {"endpoint": sys.argv[1], "local_addr": sys.argv[2], "join_timeout": 60}
try:
    procession.run(work, args=(sys.argv[3],), nproc=1, nnodes=2, rendezvous=where, lease=40)
except procession.GroupStopped:
    print("stopped")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("who", ["host", "member"])
def test_a_program_that_is_interrupted_has_the_job_stopped(tmp_path, who):
    script, port, there = write(tmp_path / "stops.py", STOPS), free_port(), tmp_path / "there"
    there.mkdir()
    endpoint, program = f"127.0.0.1:{port}", [sys.executable, script]
    env = {**os.environ, **KEY}
    with Watched(endpoint, "127.0.0.1", there, program=program, env=env) as host:
        until(lambda: _listens(["--rdzv-endpoint", endpoint]), "somebody listens", PATIENCE)
        with Watched(endpoint, "127.0.0.2", there, program=program, env=env) as member:
            until(lambda: len(os.listdir(there)) == 2, "all ranks work", PATIENCE)
            ends, other = (host, member) if who == "host" else (member, host)
            ends.signal(signal.SIGINT)
            assert (ends.end(PATIENCE), other.end(PATIENCE)) == (0, 0), (ends.err, other.err)
    assert (bytes(ends.out), bytes(other.out)) == (b"interrupted\n", b"stopped\n")


SEE = """
import json, os, sys, time
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
         "GROUP_RANK", "GROUP_WORLD_SIZE"]
assert sys.argv[2] == f"{os.environ['RANK']}/{os.environ['WORLD_SIZE']}", sys.argv
sys.stdout.write(" ".join(os.environ[name] for name in names) + "\\n")
sys.stdout.flush()
if os.environ["RANK"] == "4":
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    raise ValueError("no such batch")
time.sleep(100)
"""


NUMBERS = "${rank}/${world_size}"


def test_machines_with_different_numbers_of_ranks(tmp_path):
    script, go, port = write(tmp_path / "see.py", SEE), tmp_path / "go", free_port()
    line = words(port, 3, "--prefix", "", "-n")
    with contextlib.ExitStack() as open_:
        counts = (2, 1, 3)
        launchers = [
            open_.enter_context(launcher(*line, count, script, go, NUMBERS, node=node, **KEY))
            for node, count in enumerate(counts)
        ]
        first = 0
        for node, (each, count) in enumerate(zip(launchers, counts, strict=True)):
            for local in range(count):
                seen = f"{first} {local} 6 {count} {first} 6 {node} 3\n"
                each.shows(seen.encode(), patience=PATIENCE)
                first += 1
        go.touch()
        for each in launchers:
            assert each.end(PATIENCE) == 1
            assert b"see.py failed: rank 4 of 6 (pid " in each.err
            assert b", node 2) raised ValueError: no such batch" in each.err
            ended = bytes(each.err).partition(b"ended by the group")[2]
            assert all(b"rank %d (pid " % rank in ended for rank in (0, 1, 2, 3, 5))


NUMBERED = """
import json, os, sys, time
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
         "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"]
sys.stdout.write(" ".join(os.environ[name] for name in names) + "\\n")
sys.stdout.flush()
rank, count = int(os.environ["RANK"]), os.environ["TORCHELASTIC_RESTART_COUNT"]
open(f"{sys.argv[1]}-{rank}-{count}", "w").close()
while not all(os.path.exists(f"{sys.argv[1]}-{each}-{count}") for each in range(3)):
    time.sleep(0.01)
if rank == 2:
    raise SystemExit(7)
time.sleep(100)
"""


def test_machines_that_are_numbered_by_hand(tmp_path):
    """They are one job: one cause, one exit code, restarts of all ranks; ranks meet as was said."""
    script, port = write(tmp_path / "numbered.py", NUMBERED), free_port()

    def line(number, count):
        return ["run", "--nnodes", 2, "--node-rank", number, "--rdzv-id", "J", "--lease", 40,
                "--master-addr", "localhost", "--master-port", port, "-n", count, "--prefix", "",
                "--max-restarts", 1, script, tmp_path / "seen"]  # fmt: skip

    env = {**os.environ, **KEY}
    with Watched(*line(1, 1), env=env) as second:
        second.shows(b"waiting for the rendezvous at localhost:", patience=PATIENCE)
        with Watched(*line(0, 2), env=env) as first:
            first.shows(b" 1\n", patience=PATIENCE)  # the second attempt, or nearly
            with Watched(*line(1, 1), env=env) as twice:  # by mistake: its place is taken
                assert (first.end(PATIENCE), second.end(PATIENCE)) == (7, 7)
    for each, ranks, local in ((first, (0, 1), 2), (second, (2,), 1)):
        node = ranks[0] // 2
        expected = [
            f"{rank} {rank - ranks[0]} 3 {local} {node} localhost {port} J {count}"
            for rank in ranks
            for count in (0, 1)
        ]
        assert sorted(each.out.decode().splitlines()) == sorted(expected)
        assert b"numbered.py failed: rank 2 of 3 (pid " in each.err
        assert b", node 1) exited with code 7" in each.err
    assert twice.out == b""


@pytest.mark.long
def test_a_numbered_machine_whose_others_do_not_come(tmp_path):
    script = write(tmp_path / "never.py", "print('here')")
    port = free_port()
    words = ["--nnodes", 2, "--rdzv-conf", "timeout=6", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    with (
        Watched("run", *words, "--node-rank", 0, "--rdzv-id", "A", script) as first,
        Watched("run", *words, "--node-rank", 1, "--rdzv-id", "B", script) as second,
    ):
        assert (first.end(PATIENCE), second.end(PATIENCE)) == (1, 1)
    assert b"1 of 2 machines came; waiting for the others" in first.err
    assert b"no rank could be started: 1 of 2 machines came (of " in first.err
    assert b"no rendezvous at 127.0.0.1:%d within 6 s" % (port - 10_000) in second.err
    assert first.out == second.out == b""


SAVES = """
import os, signal, sys, time

def save(*_):
    os.write(1, b"saves\\n")
    time.sleep(float(sys.argv[1]))
    os.write(1, b"saved\\n")
    sys.exit(0)

signal.signal(signal.SIGINT, signal.SIG_IGN)  # what the launcher passes on ends no rank
signal.signal(signal.SIGTERM, save)
print("here", flush=True)
time.sleep(100)
"""


@contextlib.contextmanager
def two_that_save(tmp_path, *words_of_ours, seconds):
    """A job of two launchers, whose ranks need some seconds to end."""
    script = write(tmp_path / "save.py", SAVES)
    line = words(free_port(), 2, *words_of_ours, script, str(seconds))
    with two_that_are_there(line) as both:
        yield both


@contextlib.contextmanager
def two_that_are_there(line, **env):
    """A job of two launchers, of which the first one hosts the rendezvous."""
    with launcher(*line, **KEY, **env) as first:
        until(lambda: _listens(line), "somebody listens", PATIENCE)
        with launcher(*line, node=1, **KEY, **env) as second:
            for each in (first, second):
                each.shows(b"here", patience=PATIENCE)
            yield first, second


@pytest.mark.parametrize("who", ["host", "member"])
def test_a_launcher_that_is_killed_ends_the_others(tmp_path, who):
    """Whoever it is, the ranks of the other one have their whole grace period."""
    with two_that_save(tmp_path, "--json", seconds=1.2) as (first, second):
        killed, other = (first, second) if who == "host" else (second, first)
        killed.signal(signal.SIGKILL)
        assert other.end(PATIENCE) == 1
        assert killed.end(PATIENCE) == -signal.SIGKILL
    said = bytes(other.err)
    assert b"saved" in said
    assert json.loads(other.out)["cause"]["outcome"] == "NODE_LOST"
    if who == "host":
        assert b"which hosts the rendezvous, is lost" in said
        assert b"driver" not in said
    else:
        assert b"node 1 (" in said
        assert b"is lost: its connection " in said


SAVES_LATE = """
import os, signal, sys, time

def save(*_):
    time.sleep(1.5)  # more than its own launcher would give it
    print("saved", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
print("attempt", attempt, "of", os.environ["TORCHELASTIC_MAX_RESTARTS"], flush=True)
open(f"{sys.argv[1]}/{attempt}-{rank}", "w").close()
while rank == "1" or not os.path.exists(f"{sys.argv[1]}/{attempt}-1"):
    time.sleep(0.01)
raise ValueError("no such batch")
"""


def test_the_numbers_of_the_host_count_and_launchers_that_differ_say_so(tmp_path):
    script, line = write(tmp_path / "late.py", SAVES_LATE), words(free_port(), 2)
    host = [*line, "--max-restarts", "1", "--shutdown-timeout", "60", "--prefix", ""]
    member = [*line, "--max-restarts", "5", "--shutdown-timeout", "0.5", "--prefix", "",
              "--lease", "41"]  # fmt: skip
    with launcher(*host, script, tmp_path, **KEY) as first:
        until(lambda: _listens(line), "somebody listens", PATIENCE)
        with launcher(*member, script, tmp_path, node=1, **KEY) as second:
            assert (first.end(PATIENCE), second.end(PATIENCE)) == (1, 1)
    assert second.out.splitlines() == [b"attempt 0 of 1", b"saved", b"attempt 1 of 1", b"saved"]
    said = bytes(second.err)
    assert said.count(b"was given other numbers") == 1
    other = (
        b"--lease 40.0 (here 41.0), --shutdown-timeout 60.0 (here 0.5), --max-restarts 1 (here 5)"
    )
    assert other in said
    assert b"other numbers" not in first.err


def test_a_launcher_that_is_killed_while_the_job_is_stopped_is_no_cause(tmp_path):
    with two_that_save(tmp_path, seconds=1.2) as (first, second):
        first.signal(signal.SIGTERM)
        second.shows(b"saves", patience=PATIENCE)
        second.signal(signal.SIGKILL)
        assert first.end(PATIENCE) == 128 + signal.SIGTERM
    assert b"save.py was stopped by SIGTERM" in first.err
    assert b"saved" in first.out


def test_ranks_that_have_lost_a_host_which_may_go_on_have_a_second(tmp_path):
    """It may only be cut off, and start again soon with another launcher."""
    with two_that_save(tmp_path, "--max-restarts", "1", seconds=100) as (first, second):
        first.signal(signal.SIGKILL)
        assert second.end(PATIENCE) == 1
    assert b"saves" in second.out
    assert b"saved" not in second.out


STUBBORN = """
    import os, signal, time
    if os.environ["GROUP_RANK"] >= os.environ["OBEY"]:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    print("here", flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_to_any_launcher_kills_the_job(tmp_path, number):
    """Not only to the one that hosts the rendezvous; what to do is said where it came."""
    script = write(tmp_path / "stubborn.py", STUBBORN)
    line = words(free_port(), 2, "--shutdown-timeout", "900", script)
    with two_that_are_there(line, OBEY="0") as (first, second):
        second.signal(number)
        second.shows(b": waiting for ranks to end; once more kills them", patience=PATIENCE)
        second.signal(number)
        assert (first.end(PATIENCE), second.end(PATIENCE)) == (128 + number, 128 + number)


def _listens(line):
    port = int(line[line.index("--rdzv-endpoint") + 1].rpartition(":")[2])
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def test_a_port_that_is_taken_at_first():
    """The machine that is to host the rendezvous does so as soon as the port is free."""
    with contextlib.ExitStack() as open_:
        other = open_.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100))
        line = words(other.getsockname()[1], 2, "--no-python", "true", conf="join_timeout=90")
        pair = [open_.enter_context(launcher(*line, node=n, **KEY)) for n in range(2)]
        other.settimeout(PATIENCE)
        for _ in range(4):  # each comes every half second
            other.accept()[0].close()
        other.close()
        assert [each.end(PATIENCE) for each in pair] == [0, 0]
        said = [b"this machine hosts the rendezvous now" in each.err for each in pair]
        assert sorted(said) == [False, True]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_to_a_launcher_that_leaves_is_not_for_the_others(tmp_path, number):
    """Its own ranks are killed; an elastic job goes on without it."""
    script = write(tmp_path / "stubborn.py", STUBBORN)
    line = words(free_port(), "1:2", "--shutdown-timeout", "900", script)
    with two_that_are_there(line, OBEY="1") as (first, second):
        second.signal(number)
        second.shows(b": waiting for ranks to end; once more kills them", patience=PATIENCE)
        second.signal(number)
        assert second.end(PATIENCE) == 128 + number
        until(lambda: first.out.count(b"here") == 2, "its rank starts again", PATIENCE)
        first.signal(signal.SIGQUIT)
        assert first.end(PATIENCE) == 128 + signal.SIGQUIT
    assert b"the others continue" in second.err
    assert b"the node process on" not in first.err
