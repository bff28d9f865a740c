"""What inputs of several targets are made of."""

import json

from hypothesis import strategies as st

NUMBERS = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "08",
        "4",
        "65536",
        "1e400",
        "nan",
        "inf",
        "9" * 5000,
        "\u0663",
        "\u00b2",
        " 1",
    ]
)
WORDS = st.sampled_from([*",:;|=[]-._/%@ \n\0", "..", "localhost", "node0", "TPU", "all"])
TEXTS = st.lists(st.one_of(NUMBERS, WORDS, st.text(max_size=8)), max_size=8).map("".join)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.sampled_from([10**400, float("inf"), -1, 1 << 31, 1 << 64]),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=12,
)


@st.composite
def damaged(draw, whole):
    """Take bytes, and change, cut out or put in a few."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 5)))
        data[at:end] = draw(st.binary(max_size=6))
    return bytes(data)


def fields(*names):
    """Give JSON objects with some of these names, and perhaps another one."""
    some = st.dictionaries(st.sampled_from(names), JSON, max_size=len(names))
    return st.builds(
        lambda a, b: {**b, **a}, some, st.dictionaries(st.text(max_size=4), JSON, max_size=1)
    )


def lines_of(said):
    return said.map(lambda each: json.dumps(each).encode())


CUTS = st.lists(st.integers(1, 400), max_size=6)


def cut(data, cuts):
    """Cut bytes into pieces of these lengths, the rest last."""
    for length in cuts:
        yield data[:length]
        data = data[length:]
    yield data
