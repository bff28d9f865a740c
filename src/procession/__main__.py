"""`python -m procession` is the command `procession`."""

from procession.cli import command

command()
