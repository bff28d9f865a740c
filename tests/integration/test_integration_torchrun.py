"""The torchrun that is installed: all that it takes is known here, and stands on the page.

This speaks when torch is upgraded: `pytest tests/integration/test_integration_torchrun.py`
names the options, variables and settings that are new.
"""

import json
import re
from pathlib import Path

import pytest

from seams.cli import make_parser
from seams.rendezvous import C10D, REFUSED, STATIC
from support import run_python, write

pytestmark = pytest.mark.torch

PAGE = Path(__file__).parents[2] / "docs" / "from-torchrun.md"
OURS = {name: o for o in make_parser(torchrun=True).options.values() for name in o.names}
# What torch's launchers read or set, by what becomes of it.
VARIABLES = {
    "as an option": ["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"],
    "set for ranks": [
        "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_SIGNALS_TO_HANDLE", "TORCHELASTIC_USE_AGENT_STORE",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    ],
    "obeyed by torch's agent under adopt": [
        "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_HEALTH_CHECK_PORT",
        "TORCHELASTIC_TIMER_FILE", "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT",
    ],
    "about torch's own store, server or threads": [
        "TORCHELASTIC_ETCD_BINARY_PATH", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
        "TORCH_ELASTIC_WORKER_IDENTICAL", "TORCH_MP_PARALLEL_START", "TORCH_WORKER_SERVER_SOCKET",
    ],
}  # fmt: skip
READ = """
    import json
    import os
    import re
    from pathlib import Path

    from torch import distributed
    from torch.distributed.run import get_args_parser

    place = Path(os.path.dirname(distributed.__file__))
    files = [place / "run.py", place.parent / "multiprocessing" / "spawn.py"]
    for room in ("launcher", "elastic"):
        files += sorted((place / room).rglob("*.py"))
    text = "".join(file.read_text() for file in files)
    rendezvous = place / "elastic" / "rendezvous"
    conf = [(rendezvous / f"{name}.py").read_text()
            for name in ("dynamic_rendezvous", "c10d_rendezvous_backend")]
    conf = "".join(conf)
    settings = {f"{name}_timeout" for name in re.findall(r'_get_timeout\\(params, "(\\w+)"', conf)}
    settings |= set(re.findall(r'params\\.get\\w*\\(\\s*"(\\w+)"', conf))
    print(json.dumps({
        "options": [
            [action.option_strings, action.nargs != 0] for action in get_args_parser()._actions
        ],
        "variables": sorted(set(re.findall(r"\\b(?:TORCHELASTIC|TORCH_[A-Z]+)_[A-Z_]+", text))),
        "conf": sorted(settings),
    }))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Give what the installed torchrun takes: its options, its variables, names in --rdzv-conf."""
    done = run_python(write(tmp_path_factory.mktemp("torchrun") / "read.py", READ), timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_option_is_known(installed):
    options = {
        name.replace("_", "-"): takes for names, takes in installed["options"] for name in names
    }
    assert {"--nproc-per-node", "--standalone", "-m", "--rdzv-conf"} <= options.keys()
    assert sorted(options.keys() - OURS.keys()) == []
    assert [n for n, takes in options.items() if bool(OURS[n].metavar) != takes] == []


def test_every_option_stands_on_the_page(installed):
    page = PAGE.read_text(encoding="utf-8")
    names = [names[-1].replace("_", "-") for names, _ in installed["options"] if names]
    said = {"--help", "--module", "--redirects", "--tee", "--node-rank"}
    assert [n for n in names if n not in said and not re.search(rf"{n}\b(?!-)", page)] == []


def test_every_variable_is_known(installed):
    known = {name for names in VARIABLES.values() for name in names}
    assert "TORCHELASTIC_RUN_ID" in installed["variables"]
    assert sorted(set(installed["variables"]) - known) == []


def test_every_setting_of_a_rendezvous_is_known(installed):
    assert {"join_timeout", "keep_alive_interval", "is_host"} <= set(installed["conf"])
    assert sorted(set(installed["conf"]) - {*C10D, *STATIC, *REFUSED}) == []
