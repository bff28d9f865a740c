"""What tests use of seeing and steering runs from other terminals."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.control": "runs serve",
        "procession.control.ask": "Connection NotAnswered",
        "procession.control.door": "Door",
        "procession.control.foreign": "group_foreign",
        "procession.control.leftover": "dead_sockets left_behind",
        "procession.control.processes": "Process below parse_environment read_processes",
        "procession.control.protocol": "Lines MOST_LINE read_request",
        "procession.control.runs": "NotFound Run choose find_run",
        "procession.control.serve": "CLIENTS",
        "procession.system.directories": "Refused open_runtime runtime_directory",
    }
)
