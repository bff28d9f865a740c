"""What scripted ranks show while they work: beats, and stacks when they are asked.

It stands in place of the board, of the look at when ranks last wrote, of the memory files in which
ranks write their stacks, and of what /proc says of a process. A beat counts as a line, too.
"""

import signal
from types import SimpleNamespace

from seams.prepare import Beat
from seams.worker import stackfile

from .kernel import LAUNCHER, SECOND, File

HEAD = b"Current thread 0x01 (most recent call first):\n"
END = b'  File "/procession/forkserver/entry.py", line 9 in main\n'


class Shown:
    """Of the ranks of one group; None: they show nothing. beats: all there were, (when, pid)."""

    def __init__(self, kernel, ranks):
        self.kernel, self.ranks = kernel, ranks
        self.every = None  # seconds between two beats of a rank; None: there are none
        self.beats = []
        self.early = 0  # signals for stacks before anybody is there to take them: they are lost
        if ranks is not None:
            ranks.shown = self

    # -- what ranks do

    def begin(self, process):
        """Have a rank that is in its program beat, and perhaps stop doing so."""
        process.offers = True
        process.takes_user_signals = self.kernel.chance.random() < 0.7
        process.place = self.kernel.chance.randrange(3)
        if self.every is not None and self.kernel.chance.random() < 0.9:
            if self.kernel.chance.random() < 0.2:
                after = self.kernel.chance.choice((0.5, 3.0)) * self.kernel.chance.random()
                self.ranks.later(process, after, lambda: self._hang(process))
            self._beat(process)

    def _hang(self, process):
        if process.finished_at is None:
            process.hung_at = self.kernel.now
            for other in self.ranks.by_rank.values():  # it waits for that one
                if other.hung_at is None and self.kernel.chance.random() < 0.3:
                    other.hung_at = self.kernel.now

    def _beat(self, process):
        if process.hung_at is None and process.finished_at is None:
            count = 1 if process.beat is None else process.beat.beats + 1
            process.beat = Beat(count, self.kernel.now, None, None, {})
            self.beats.append((self.kernel.now, process.pid))
            seconds = self.every * self.kernel.chance.uniform(0.5, 1.0)
            self.ranks.later(process, seconds, lambda: self._beat(process))

    def signalled(self, process):
        """Have a rank write its stacks, soon, late, in part or never."""
        if not process.offers:
            self.early += 1
            return
        seconds = self.kernel.chance.choice((0.0002, 0.002, 0.03, 0.5, None))
        if seconds is not None:
            text = HEAD + b'  File "/train.py", line %d in step\n' % (process.place + 1)
            self._write_later(process, seconds, text)
            if self.kernel.chance.random() < 0.9:
                self._write_later(process, seconds + 0.001, END)

    def _write_later(self, process, seconds, text):
        def write():
            process.dump += text

        self.ranks.later(process, seconds, write)

    # -- what the launcher sees

    def board(self):
        """What stands for the board."""
        return SimpleNamespace(
            tell_stop=lambda *_: None,
            tell_returned=lambda: None,
            forget=lambda *_: None,
            beat=self._last_beat,
        )

    def _last_beat(self, rank):
        self.kernel.catch_up()
        process = self.ranks and self.ranks.by_rank.get(rank)
        return None if process is None else process.beat

    def activity(self, _streams):
        """What stands for the look at when ranks last wrote."""

        def look(_now, attempts):
            beats = [self._last_beat(rank) for rank in range(len(attempts))]
            return {rank: 0 if beat is None else beat.at for rank, beat in enumerate(beats)}

        return SimpleNamespace(look=look)

    def taking(self):
        """What the module that takes stacks gets in place of /proc and of memory files."""
        return {
            "time": self.kernel.clock(),
            "signal": self.kernel.signals(),
            "os": SimpleNamespace(close=self.kernel.close, ftruncate=self._empty),
            "state_of": self.state_of,
            "wait_channel": lambda _: "",
            "describe": lambda _: "sleeps",
            "_memory_file": self._open,
            "_read": lambda fd: self.kernel.files[fd].process.dump,
        }

    def _open(self, pid):
        process = self.kernel.table.get(pid)
        if process is None or process.state != "alive" or not process.mark:
            return -1
        file = File(self.kernel, "memory")
        file.process = process
        return file.fd

    def _empty(self, fd, _size):
        self.kernel.files[fd].process.dump = b""

    def state_of(self, pid):
        """What /proc says of a process that is no forkserver."""
        self.kernel.catch_up()
        process = self.kernel.table.get(pid)
        if process is None or pid == LAUNCHER:
            return None
        letter = {"alive": "T" if process.stopped else "S", "dying": "R"}.get(process.state, "Z")
        caught = {stackfile.SIGNAL} if process.offers else set()
        if process.takes_user_signals:
            caught.add(signal.SIGUSR1)
        return SimpleNamespace(
            letter=letter,
            catches=lambda number: number in caught,
            ends_by=lambda _: False,
            blocks=lambda _: False,
            awaits=lambda _: False,
        )


def judge_hangs(group, truth):
    """Nobody is taken for hung who is not, and who is is found in time."""
    limit, silence = group.hang.timeout, group.hang.silence
    suspended = sum(group.suspensions)
    for rank, record in enumerate(group.supervisor.records):
        process = truth.by_rank.get(rank)
        if not record.hung or record.pid != process.pid:
            continue
        if not process.has_pidfd and process.ended_at is not None:
            continue  # that it is dead, only a forkserver can tell, which may stand still
        at = group.supervisor.lifecycle.ranks[rank].failed_at
        if silence is not None and record.hung.startswith("no rank"):
            from_then = at - int((silence - suspended) * SECOND)
            before = int(1.0 * SECOND)  # while stacks were taken
            late = [b for b, _ in group.shown.beats if from_then < b < at - before]
            assert not late, f"rank {rank} was silent, and others wrote at {late}, before {at}"
        else:
            # It did not go on, or its program has come to an end, and it takes long to exit.
            rests = process.hung_at if process.finished_at is None else process.finished_at
            assert rests is not None, f"rank {rank} counts as hung, and beats"
            assert limit is not None
            age = (at - process.beat.at) / SECOND
            assert age >= limit / 2 - suspended, f"rank {rank} hung {age} s after its last beat"
    if limit is None or group.restart.single or group.faults or suspended:
        return
    for process in truth.all:
        if process.hung_at is None or process.beat is None:
            continue
        ends = [process.ended_at, process.failed_at, truth.ended_by_us(process), group.ended]
        end = min(at for at in ends if at is not None)
        took = (end - process.hung_at) / SECOND
        most = (
            limit
            + 1.0
            + group.stop.patience
            + group.stop.notice
            + sum(e.took for e in group.errands)
        )
        assert took <= most, f"rank {process.rank} hangs for {took:.3f} s, more than {most:.3f}"
