"""The commands that look at runs from another terminal, or steer them.

They work on a `Run` of `procession.control.runs`, and know no group of this process.
"""
