"""The loop that owns a group: it watches, carries out what the lifecycle decides, and ends.

May import explain, prepare, forkserver, output, rules, system and values. Start reading at
`supervisor`.
"""
