"""`ErrorHandler`: writes the exception of a rank to its error file.

The file is JSON, as torch's launcher reads it:

    {"message": {"message": "ValueError: no such batch",
                 "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1700000000"}}}
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import traceback
import warnings
from typing import Any

from procession.output.rankfiles import read_regular
from procession.worker.description import error_file_data

__all__ = ["ErrorHandler"]

logger = logging.getLogger(__name__)


class ErrorHandler:
    """Writes to the file that `TORCHELASTIC_ERROR_FILE` names; without one, nothing is written.

    To be subclassed: override `initialize`, `record_exception`, `record_success` and
    `maybe_enrich_signal_failure_message`. `_fn_name` names the function that `record` decorates.
    """

    _fn_name: str | None = None

    def _get_error_file_path(self) -> str | None:
        """Give the path of this process's error file; None or "": it has none."""
        return os.environ.get("TORCHELASTIC_ERROR_FILE")

    def set_entrypoint_fn_name(self, fn_name: str | None) -> None:
        """Keep the qualified name of the decorated function, None if the function has none."""
        self._fn_name = fn_name

    def initialize(self) -> None:
        """Prepare this process: a crash in native code will print Python tracebacks to stderr.

        Warns, and never raises, if that cannot be had.
        """
        try:
            faulthandler.enable(all_threads=True)
        except Exception as e:
            warnings.warn(
                f"no traceback will be printed after a crash: {type(e).__name__}: {e} [P422]",
                stacklevel=2,
            )

    def record_exception(self, e: BaseException) -> None:
        """Write an exception to the error file, if this process has one. Raises OSError."""
        path = self._get_error_file_path()
        if not path:
            return
        callstack = "".join(traceback.format_exception(type(e), e, e.__traceback__))
        with open(path, "w") as f:
            json.dump(error_file_data(f"{type(e).__name__}: {e}", callstack), f)

    def record_success(self) -> None:
        """Do nothing. `record` calls this after the decorated function has returned."""

    def maybe_enrich_signal_failure_message(self, message: str, error_file: str) -> str:
        """Return the message of a rank that a signal ended, as the report is to show it.

        message: what is known. error_file: the path of the rank's error file, `<N/A>` without one.
        """
        return message

    def override_error_code_in_rootcause_data(
        self,
        rootcause_error_file: str,
        rootcause_error: dict[str, Any],
        error_code: int = 0,
    ) -> None:
        """Set `message.errorCode` of an error file's data, where it has such a message."""
        message: Any = rootcause_error.get("message")
        if isinstance(message, dict):
            message["errorCode"] = error_code
        else:
            logger.warning("%s has no place for the code %s", rootcause_error_file, error_code)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy a child's error file to this process's own.

        error_code: the exit code of the child, to be set in the copy; 0: leave it. Where this
        process has no error file, an error is logged. Raises OSError if the child's file cannot be
        read, ValueError if it is not JSON.
        """
        data: Any = json.loads(read_regular(rootcause_error_file))
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, data, error_code)
        path = self._get_error_file_path()
        if not path:
            logger.error("this process has no error file: %s stays there", rootcause_error_file)
            return
        try:
            with open(path, "w") as f:
                json.dump(data, f)
        except OSError as e:
            warnings.warn(f"the error file was not written: {e} [P422]", stacklevel=2)
        logger.info("handed %s on as %s", rootcause_error_file, path)
