"""A running group, shown to people: a live view on a terminal, and a line of status.

May import output, system and values: it lives on the plain data that `Group.look` gives, so
that it works in another process, too. Start reading at `live`. No launch imports it unasked.
"""
