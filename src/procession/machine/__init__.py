"""The ranks of one machine: their agent, what it tells, and what they need to start.

May import explain, prepare, agent, output and all that stands below. Start reading at `machine`.
"""
