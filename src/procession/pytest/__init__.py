"""Tests in n ranks: a plugin for pytest, and what tests import from here.

`@pytest.mark.ranks(4)` runs a test in four fresh processes, which are forks of an agent; see
docs/guides/testing.md. pytest loads `plugin` by its entry point in every session, so that file and
this one import nothing of procession's launching; `parent` and all below it come with the first
marked test.

May import everything below it but the command. Start reading at `plugin`, then `parent` (pytest's
own process), `spare` (what agents are forked from), `inrank` (a rank), `verdict` (what ranks said,
made one).
"""

from __future__ import annotations

from procession.pytest.sharedfixtures import shared

__all__ = ["shared"]
