"""The agent: parent and reaper of the ranks, its protocol, and the launcher's end of it.

May import worker, rules, system and values; the agent itself only what every rank may. Start
reading at `server`, and at `pool` for the launcher's end.
"""
