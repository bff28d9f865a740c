"""Whatever stands in the original's modules stands here, but for what is listed with a reason."""

import json
from unittest import mock

import pytest

from seams.elastic import api
from support import run_python, write

IMPORTED = "the original's own imports, of the standard library or of torch"
NO_OTHER_SYSTEM = "tells systems apart; here is only Linux"
INSIDE = "how the original does what is done otherwise here; nothing would look at it"

LEFT_OUT = {
    "": {IMPORTED: "Callable NumaOptions Optional Union get_logger subprocess_handler"},
    ".api": {
        IMPORTED: "ABC FrameType IntFlag NumaOptions TextIO Union abc abstractmethod dataclass "
        "field mp os partial re signal shutil subprocess synchronize sys tempfile threading time",
        NO_OTHER_SYSTEM: "IS_MACOS IS_WINDOWS",
        "a context has `pids`": "SubprocessHandler get_subprocess_handler",
        INSIDE: "_MAPPING_REGEX _VALUE_REGEX _get_default_signal _get_kill_signal "
        " _maybe_wrap_with_numa_binding _wrap",
    },
    ".errors": {
        IMPORTED: "Optional Template Union dataclass datetime field get_logger json os signal time "
        "wraps",
        INSIDE: "_EMPTY_ERROR_DATA _FAILURE_FORMAT_TEMPLATE _MSG_FORMAT_TEMPLATE _NOT_AVAILABLE",
    },
    ".errors.error_handler": {IMPORTED: "time"},
    ".errors.handlers": {},
    ".redirects": {
        IMPORTED: "contextmanager ctypes logger logging",
        NO_OTHER_SYSTEM: "IS_MACOS IS_WINDOWS _WIN32_STD_HANDLE",
        INSIDE: "_c_std _python_std get_libc libc",
    },
    ".tail_log": {IMPORTED: "Event TYPE_CHECKING ThreadPoolExecutor os time"},
}


@pytest.mark.torch
def test_all_names_of_the_original(tmp_path):
    source = """
        import importlib, json, sys
        missing = {}
        for module in json.loads(sys.argv[1]):
            old = importlib.import_module("torch.distributed.elastic.multiprocessing" + module)
            new = importlib.import_module("procession.elastic" + module)
            missing[module] = [name for name in dir(old) if not hasattr(new, name)]
        print(json.dumps(missing))
    """
    script = write(tmp_path / "main.py", source)
    done = run_python(script, json.dumps(list(LEFT_OUT)), timeout=55, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    left_out = {
        module: {name for names in why.values() for name in names.split()}
        for module, why in LEFT_OUT.items()
    }
    missing = json.loads(done.stdout.splitlines()[-1])
    for module, names in missing.items():
        assert set(names) <= left_out[module], module


@pytest.mark.parametrize("name", ["api", "errors", "redirects", "tail_log", "_validate_full_rank"])
def test_modules_and_what_is_not_public_need_no_further_import(name):
    code = f"import procession.elastic as e; assert e.{name}; from procession.elastic import {name}"
    assert run_python("-c", code).returncode == 0


@pytest.mark.parametrize(
    "name",
    [
        "ProcessFailure",
        "TailLog",
        "record",
        "redirect_stderr",
        "redirect_stdout",
        "start_processes",
    ],
)
def test_what_users_import_from_api_or_patch_there(name):
    assert callable(getattr(api, name))
    with mock.patch(f"procession.elastic.api.{name}") as patched:
        assert getattr(api, name) is patched
