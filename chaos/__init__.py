"""Faults by the hundred: what procession promises, tried at random moments, and counted.

`make chaos` runs all rows and writes their table into docs/reliability.md. A row is a kind of fault
(`chaos/rows/`); a trial is one fault, and all that is random in it comes from its seed.
"""
