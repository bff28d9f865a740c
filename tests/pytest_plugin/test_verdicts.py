"""What ranks say, made one verdict: plain data in, plain data out."""

from seams.pytest_plugin import merged


def report(outcome="passed", when="call", at=1, message="assert 1 == 2", line=5, **more):
    crash = {"path": "/t/test_x.py", "lineno": line, "message": message}
    longrepr = {"reprcrash": crash} if outcome == "failed" else None
    base = {"when": when, "outcome": outcome, "longrepr": longrepr, "duration": 0.5,
            "sections": [], "monotonic": at}  # fmt: skip
    return {**base, **more}


def rank(*reports, done=True, **more):
    return {"reports": list(reports), "done": done, "left": [], **more}


def verdict(*ranks, **more):
    return merged({"ranks": ranks, "over": "", "left": [], "took": 0.5, **more})


def test_the_first_failure_is_the_one_that_happened_first():
    found = verdict(
        rank(report("failed", at=30, message="late\nmore", line=9)),
        rank(report("failed", at=20)),
        rank(report("failed", at=25)),
        rank(report("failed", at=26, message="assert 3 == 4")),
        rank(report()),
        rank(done=False, where="waits in all_reduce (test_x.py:12)"),
    )
    assert (found.outcome, found.first) == ("failed", 1)
    assert found.headline == "rank 1 of 6 failed first: assert 1 == 2"
    assert found.others == (
        "rank 0: late (test_x.py:9)",
        "rank 2: same failure",
        "rank 3: same line: assert 3 == 4",
        "rank 4: passed",
        "rank 5: ended while waiting in all_reduce (test_x.py:12)",
    )


def test_ranks_agree_by_their_tests_not_by_their_teardowns():
    late = rank(report("failed", longrepr="[XPASS(strict)] bug"),
                report("skipped", "teardown", wasxfail="bug"))  # fmt: skip
    found = verdict(rank(report("skipped", wasxfail="bug")), late)
    assert found.headline.startswith("the ranks do not agree")


def test_ranks_that_lost_another_one_are_one_line():
    """Each names another port. The place is in the test, not in the library that raised it."""
    lost = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:{}. This is"

    def other(port):
        places = [("test_x.py", 12), ("/lib/python3/site-packages/torch/c10d.py", 3252)]
        found = report("failed", at=port, message=lost.format(port), line=3252)
        found["longrepr"]["reprtraceback"] = {
            "reprentries": [
                {"data": {"reprfileloc": {"path": path, "lineno": line}}} for path, line in places
            ]
        }
        return rank(found)

    found = verdict(other(31149), rank(report("failed")), other(39655))
    said = "ranks 0,2: RuntimeError: the connection to another rank is lost (test_x.py:12)"
    assert found.others == (said,)


def test_what_was_left_behind_fails_a_test_that_passed():
    leaving = rank(report())
    leaving["left"] = ["pid 7 (sleep)"]
    found = verdict(rank(report()), leaving, left=["pid 7 (sleep)"])  # seen twice
    assert found.headline == "the test left a process behind: pid 7 (sleep) of rank 1"
    both = verdict(rank(report("failed")), rank(report()), left=["pid 7 (sleep)", "pid 8 (x)"])
    assert both.headline == "rank 0 of 2 failed first: assert 1 == 2"
    assert both.others[-3:] == (
        "the test left 2 processes behind, ended now:", "  pid 7 (sleep)", "  pid 8 (x)"
    )  # fmt: skip


def test_output_of_others_is_cut():
    lines = "".join(f"{n}\n" for n in range(30))
    out = [("Captured stdout call", lines)]
    found = verdict(rank(report(sections=out)), rank(report("failed", sections=out)))
    (first, whole), (second, end) = found.sections
    assert (first, whole) == ("Captured stdout call (rank 1)", lines)
    assert second == "Captured stdout call (rank 0)"
    assert end.startswith("(10 lines more before)\n10\n")
