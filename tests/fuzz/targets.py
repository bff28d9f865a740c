"""What is fuzzed: for each parser its inputs, and what must hold whatever comes.

A target is a strategy and a check. The check may let out what the parser's docstring names, and
nothing else; what it accepts must be of the kinds that its callers count on.
"""

import json

from framed import (
    CONTROL,
    FRAMES,
    INVITED,
    LINK,
    MARSHALLED,
    check_control,
    check_forkserver,
    check_invitation,
    check_link,
    check_results,
    check_warm,
)
from hypothesis import strategies as st
from inputs import CUTS, NUMBERS, TEXTS, damaged, fields, lines_of
from worded import (
    CONF,
    ERRORS,
    LINE,
    PJRT,
    STARTERS,
    STREAMS,
    TOML,
    XRT,
    check_conf,
    check_error_file,
    check_options,
    check_pjrt,
    check_starters,
    check_std,
    check_texts,
    check_toml,
    check_xrt,
    printable,
)

TARGETS = {
    "forkserver": (
        st.tuples(
            st.lists(st.lists(MARSHALLED, min_size=1, max_size=3).map(tuple), max_size=3), CUTS
        ),
        check_forkserver,
    ),
    "control": (st.tuples(st.one_of(CONTROL, st.binary(max_size=200)), CUTS), check_control),
    "warm": (
        st.one_of(damaged(lines_of(fields("warm", "ask", "kept", "id"))), st.binary(max_size=60)),
        check_warm,
    ),
    "link": (LINK, check_link),
    "invitation": (
        st.tuples(
            st.one_of(TEXTS, INVITED.map(json.dumps)),
            st.sampled_from(["00" * 32, "x", ""]),
            NUMBERS,
        ),
        check_invitation,
    ),
    "results": (st.tuples(st.one_of(FRAMES, st.binary(max_size=80)), st.booleans()), check_results),
    "options": (LINE.filter(printable), check_options),
    "toml": (TOML, check_toml),
    "error_files": (ERRORS, check_error_file),
    "std": (STREAMS, check_std),
    "xrt": (XRT, check_xrt),
    "pjrt": (PJRT, check_pjrt),
    "starters": (STARTERS, check_starters),
    "rdzv_conf": (st.one_of(CONF, TEXTS), check_conf),
    "texts": (TEXTS, check_texts),
}
