"""The output of ranks: to files, through pipes, in whole lines with prefixes, to the console.

May import system and values. Start reading at `wiring` (what goes where) and `follow` (who follows
it).
"""
