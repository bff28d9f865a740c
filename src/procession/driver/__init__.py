"""The loop that owns a group: it watches, carries out what the lifecycle decides, and ends.

May import explain, prepare, agent, output, rules, system and values. Start reading at
`supervisor`.
"""
