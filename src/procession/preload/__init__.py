"""What the forkserver may import before it forks: chosen in the launcher, without running anything.

`safe` is the list of modules shown to be safe, `imports` finds those that a program will import,
`learned` remembers what its last run had imported at its end.
"""
