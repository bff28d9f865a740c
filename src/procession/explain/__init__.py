"""From what was seen of ranks to words: how each ended, the report, their stacks.

May import prepare, output, worker, rules, system and values, and makes no process. Start reading at
`ends`.
"""
