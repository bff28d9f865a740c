"""What runs in a rank before, around and after its program.

May import system and the standard library, nothing else: every rank pays for each import. Start
reading at `bootstrap`.
"""
