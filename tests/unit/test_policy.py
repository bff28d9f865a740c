import pytest

from seams.values import Logs, Route, Std

NONE, OUT, ERR, ALL = Std.NONE, Std.OUT, Std.ERR, Std.ALL


# -- which streams


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("0:3", {0: ALL}),
        ("0:3,1:0,12:2", {0: ALL, 1: NONE, 12: ERR}),
        ("100:1,4095:3", {100: OUT, 4095: ALL}),
    ],
)
def test_values_by_rank(text, chosen):
    assert Std.from_str(text) == chosen
    assert all(isinstance(std, Std) for std in Std.from_str(text).values())


WORDS = ["", "4", "-1", "00", "a", "0:", ":1", "0:4", "0:1,", "0:1;1:2",
         "-1:2", "0:1:2", "0:1, 1:2"]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [*WORDS, "\u0663:1", "1:\u0663", "\u0663"],  # digits, but not ours
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="not a choice of streams") as raised:
        Std.from_str(text)
    assert repr(text) in str(raised.value)
    assert "\n" not in str(raised.value)


# -- the way of each stream


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("tee", list(Std))
@pytest.mark.parametrize("redirect", list(Std))
def test_the_route_for_each_combination(redirect, tee, prefix, shown):
    logs = Logs(
        redirect=redirect,
        tee=tee,
        prefix="[{rank}] " if prefix else "",
        ranks=None if shown else [1],
    )

    def expected(bit):
        if tee & bit and shown:
            return Route.TEE
        if (redirect | tee) & bit:
            return Route.FILE
        if not shown:
            return Route.DROP
        return Route.PREFIX if prefix else Route.INHERIT

    assert logs.route(2)[0] == (expected(OUT), expected(ERR))


@pytest.mark.parametrize(
    ("prefix", "nproc", "template"),
    [
        ("auto", 1, None),
        ("auto", 2, "[{rank}] "),
        ("", 4, None),
        (None, 4, None),
        ("{name}{local_rank:>{width}}: ", 1, "{name}{local_rank:>{width}}: "),
    ],
)
def test_the_template(prefix, nproc, template):
    Logs(prefix=prefix).check(nproc)
    assert Logs(prefix=prefix).template(nproc) == template


# -- what is refused, in one line


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Logs(tee={5: ALL}), "tee: given for rank 5, but the group's ranks are 0 to 3"),
        (Logs(redirect={-1: ALL}), "redirect: given for rank -1"),
        (Logs(prefix="{hots} "), "prefix: '{hots} ' is not a template"),
        (Logs(prefix="{} "), "prefix: '{} ' is not a template"),
        (Logs(prefix="{rank"), "prefix: '{rank' is not a template"),
        (Logs(prefix="{name:d}"), "prefix: '{name:d}' is not a template"),
        (Logs(prefix="{rank[0]}"), "prefix: '{rank[0]}' is not a template"),
        (Logs(prefix="{rank.host}"), "prefix: '{rank.host}' is not a template"),
        (Logs(dir="/dev/null"), "log directory: '/dev/null' is not a directory"),
        (Logs(dir="/dev/null/runs/x"), "log directory: '/dev/null' is not a directory"),
    ],
)
def test_logs_that_cannot_be(policy, words):
    with pytest.raises(ValueError, match=r"^\w") as raised:
        policy.check(4)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
