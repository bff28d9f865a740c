"""What tests use of seeing and steering runs from other terminals."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.control": "index runs",
        "procession.control.ask": "Connection RunEnded NotAnswered sockets",
        "procession.control.prompt": "Prompt",
        "procession.control.leftover": "dead_sockets left_behind read_processes",
        "procession.control.serve": "Lines decode",
        "procession.control.runs": "NotFound Run choose find_run",
        "procession.control.reach": "CLIENTS",
        "procession.system.directories": "Refused open_runtime runtime_directory",
    }
)
