"""Command lines, files and variables: inputs, and what must hold."""

import contextlib
import io
import tempfile

from hypothesis import strategies as st
from inputs import JSON, NUMBERS, TEXTS, damaged, fields, lines_of

from procession.elastic.errors import ProcessFailure
from seams.cli import read_preemption, read_request, read_started
from seams.devices import topology_from_variables
from seams.jobs import EngineError
from seams.output import read_error_file
from seams.rendezvous import Terms, read_terms
from seams.slurm import read_allocation, read_task
from seams.ssh import parse_hostfile, parse_hosts
from seams.values import SpecError, Std, parse_ranks, read_size
from seams.warm import read_most, read_warm
from seams.xla import pjrt, xrt


def refused(call, *args, **named):
    """Call what may refuse; gives what it gives, None for a refusal, which has to say something."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            return call(*args, **named)
    except (SpecError, SystemExit) as e:
        fault = e
    usual = isinstance(fault, SpecError) or fault.code in {0, 2}
    assert usual, fault
    assert told.getvalue() + str(fault).strip("02")
    return None


def request_of(words):
    return read_request(words)


OPTION = st.sampled_from(
    ["-n", "--nproc-per-node", "--nnodes", "--node-rank", "--log-dir", "-t", "-r", "--tee",
     "--max-restarts", "--rdzv-conf", "--rdzv-endpoint", "--rdzv-backend", "--env", "--stdin",
     "--local-ranks-filter", "--shutdown-timeout", "--hang-timeout", "--prefix", "--devices",
     "--backoff", "--memory", "--cpu-bind", "--master-port", "--name", "--role", "--lease",
     "--forward-signals", "--warm", "--preemption-signals", "--never-restart",
     "--start-method", "-m", "--detach", "--live", "--json", "--status", "--dry-run", "--", ":",
     "--nonsense", "-x", "-n3"]
)  # fmt: skip
LINE = st.lists(
    st.one_of(
        OPTION,
        st.tuples(OPTION, TEXTS).map("=".join),
        TEXTS,
        st.sampled_from(["1", "2", "true", "c10d", "1:2", "3"]),
    ),
    max_size=8,
)


def printable(words):
    """What a command line can hold."""
    return not any("\0" in word for word in words)


def check_options(words):
    refused(request_of, words)


def check_error_file(data):
    with tempfile.NamedTemporaryFile("wb") as f:
        f.write(data)
        f.flush()
        text, why = read_error_file(f.name)
        assert isinstance(text, str)
        assert bool(text) != bool(why)
        failure = ProcessFailure(0, 1, 1, f.name)
        assert isinstance(failure.timestamp_isoformat(), str)
        assert str(failure.message) is not None


EXTRA = fields("timestamp", "py_callstack")
MESSAGE = st.one_of(
    JSON,
    fields("message", "extraInfo", "errorCode"),
    st.fixed_dictionaries({"message": JSON, "extraInfo": EXTRA}),
)
ERRORS = st.one_of(
    damaged(lines_of(fields("message", "timestamp"))),
    lines_of(st.fixed_dictionaries({"message": MESSAGE, "timestamp": JSON})),
    lines_of(JSON),
    st.binary(max_size=40),
)


def check_std(text):
    try:
        found = Std.from_str(text)
    except ValueError as e:
        fault = str(e)
    else:
        fault = ""
    if fault:
        assert "not a choice of streams" in fault
        return
    if isinstance(found, Std):
        assert str(int(found)) == text
    else:
        assert all(rank >= 0 and isinstance(std, Std) for rank, std in found.items())
        assert Std.from_str(",".join(f"{r}:{int(s)}" for r, s in found.items())) == found


STREAMS = st.one_of(
    TEXTS,
    st.lists(st.tuples(NUMBERS, st.sampled_from(":,"), NUMBERS).map("".join), max_size=4).map(
        ",".join
    ),
)


def check_xrt(env):
    for nprocs in (None, 1, 8):
        wanted = refused(xrt.ranks_wanted, env, nprocs)
        if wanted is not None and wanted < 100:
            refused(xrt.environments, env, wanted)
    xrt.is_set_up(env)


XRT = st.dictionaries(
    st.sampled_from(["XRT_TPU_CONFIG", "XRT_LOCAL_WORKER", "XRT_MESH_SERVICE_ADDRESS",
                     "XRT_SHARD_WORLD_SIZE", "TPU_NUM_DEVICES"]),
    st.one_of(TEXTS, st.just("c_localservice;0;localhost:51011"), st.just("w:1"), NUMBERS),
    max_size=5,
)  # fmt: skip


def check_pjrt(env):
    kind = pjrt.device_type(env, ["TPU"])
    topology = refused(topology_from_variables, env)
    if kind == "TPU" and topology is None:
        return
    if kind is not None and (topology is None or topology.chips_per_host < 100):
        count = env.get("GPU_NUM_DEVICES", "") + env.get("NEURONCORE_NUM_DEVICES", "")
        if len(count) < 3:  # a list of so many ranks is right, and takes long
            refused(pjrt.ranks, kind, env, topology, "localhost:1")
            refused(pjrt.single, kind, env)


SHAPE = st.sampled_from(["2,2,1", "1,1,1", "4,4,4", "2,2", "0,1,1", "2,2,x"])
PJRT = st.fixed_dictionaries(
    {
        "PJRT_DEVICE": st.one_of(
            st.sampled_from(["TPU", "CUDA", "NEURON", "CPU", "", "tpu_x"]), TEXTS
        )
    },
    optional={
        "TPU_ACCELERATOR_TYPE": st.one_of(st.sampled_from(["v4-16", "v5litepod-8", "v2-8"]), TEXTS),
        "TPU_WORKER_HOSTNAMES": TEXTS,
        "TPU_WORKER_ID": NUMBERS,
        "TPU_PROCESS_BOUNDS": SHAPE,
        "TPU_CHIPS_PER_PROCESS_BOUNDS": SHAPE,
        "TPU_HOST_BOUNDS": SHAPE,
        "GPU_NUM_DEVICES": NUMBERS,
        "NEURONCORE_NUM_DEVICES": NUMBERS,
        "NEURON_RT_VISIBLE_CORES": TEXTS,
    },
)


def check_starters(env):
    """The variables of mpirun, mpiexec and srun, and those of a Slurm job."""
    refused(lambda each: read_started(each, 4), env)
    for read in (read_task, read_allocation):
        with contextlib.suppress(EngineError):
            read(env)


SLURM = {
    "SLURM_JOB_ID": "811", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_CPUS_PER_TASK": "3", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NTASKS": "2",
    "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2",
    "SLURM_GPUS_ON_NODE": "a100:2", "SLURM_CPUS_ON_NODE": "8",
}  # fmt: skip
MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0",
    "MPI_LOCALNRANKS": "1",
}  # fmt: skip
LISTS = st.lists(
    st.sampled_from(["n", "[", "]", "1", "2", "-", ",", "(x", ")", "0", "9" * 5000, "4294967290"]),
    max_size=8,
).map("".join)
STARTERS = st.tuples(
    st.sampled_from([SLURM, MPI, {**SLURM, **MPI}]),
    st.dictionaries(
        st.sampled_from([*SLURM, *MPI]), st.one_of(st.none(), NUMBERS, TEXTS, LISTS), max_size=4
    ),
).map(lambda both: {k: v for k, v in {**both[0], **both[1]}.items() if v is not None})


def check_texts(text):
    """Short texts of options, variables and files, each with a reader of its own."""
    for read in (parse_ranks, read_size):
        with contextlib.suppress(ValueError):
            read(text)
    for read in (read_preemption, read_warm, parse_hosts, parse_hostfile):
        refused(read, text, "--option")
    assert read_most({"PROCESSION_WARM_MOST": text}) >= 0
    if (found := refused(read_terms, text, text)) is not None:
        assert isinstance(found, Terms)


WORDED = {
    "options": (LINE.filter(printable), check_options),
    "error_files": (ERRORS, check_error_file),
    "std": (STREAMS, check_std),
    "xrt": (XRT, check_xrt),
    "pjrt": (PJRT, check_pjrt),
    "starters": (STARTERS, check_starters),
    "texts": (TEXTS, check_texts),
}
