"""Where procession runs: a short check of real launches, in one environment after the other.

`make chaos-matrix` runs all cells and writes docs/matrix.md. A cell (`chaos/matrix/cells/`) is an
environment, described as data (`environment`), that one process makes for itself before it becomes
the check (`enter`). The check launches (`check`); `procession doctor` is asked in the same place;
`verdict` says what the cell is, and whether doctor had said so.
"""
