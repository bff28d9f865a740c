"""What is fuzzed: for each parser its inputs, and what must hold whatever comes.

A target is a strategy and a check. The check may let out what the parser's docstring names, and
nothing else; what it accepts must be of the kinds that its callers count on.
"""

import json

from framed import (
    CONTROL,
    FRAMES,
    HEIRS,
    INVITED,
    LINK,
    WILLS,
    check_control,
    check_invitation,
    check_link,
    check_rendezvous,
    check_results,
    check_warm,
)
from hypothesis import strategies as st
from inputs import CUTS, JSON, NUMBERS, TEXTS, damaged, fields, lines_of
from worded import (
    ERRORS,
    LINE,
    PJRT,
    STARTERS,
    STREAMS,
    XRT,
    check_error_file,
    check_options,
    check_pjrt,
    check_starters,
    check_std,
    check_texts,
    check_xrt,
    printable,
)

TARGETS = {
    "control": (st.tuples(st.one_of(CONTROL, st.binary(max_size=200)), CUTS), check_control),
    "warm": (
        st.one_of(damaged(lines_of(fields("warm", "ask", "kept", "id"))), st.binary(max_size=60)),
        check_warm,
    ),
    "link": (LINK, check_link),
    "rendezvous": (
        st.tuples(st.one_of(JSON, HEIRS, HEIRS), st.one_of(JSON, WILLS, WILLS)),
        check_rendezvous,
    ),
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
    "error_files": (ERRORS, check_error_file),
    "std": (STREAMS, check_std),
    "xrt": (XRT, check_xrt),
    "pjrt": (PJRT, check_pjrt),
    "starters": (STARTERS, check_starters),
    "texts": (TEXTS, check_texts),
}
