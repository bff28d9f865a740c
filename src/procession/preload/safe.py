"""The list of modules that are safe to import before a fork, and what has to be known of each.

Safe means, after the import: no thread but those that end themselves before a fork (OpenBLAS's), no
child process, socket or device; nothing that tells ranks apart was read, except the variables that
are named here; and importing it a little earlier than the program does makes no difference that the
program could see. `tests/preload/test_safe.py` shows it for each entry that is installed. Of
the other entries it was shown once, with the versions above the list.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from procession.preload.find import ModuleKind, Search, with_packages
from procession.values.base import Value


class ForkSafety(Value):
    """Whether a module may be imported before the fork.

    reason: why not, "" if it may.
    variables: environment variables that it, or what it imports, reads when it is imported; `X_*`
        stands for all that begin with `X_`.
    sets: variables that it sets when it is imported, unless they are set.
    unless: top-level modules that it imports if they are installed, and that are not safe: where
        one of them is, it is not safe either.
    needs: other listed packages that it imports, or may import.
    """

    reason: str
    variables: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


class _Entry(Value):
    reads: str = ""
    sets: str = ""
    needs: str = ""  # entries that it imports, or may import
    unless: str = ""
    later: Mapping[str, str] = MappingProxyType({})  # name: submodule imported when it is used


def _words(*texts: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join(texts).split()))


_OPENMP = "OMP_* GOMP_* KMP_* ACC_DEVICE_NUM ACC_DEVICE_TYPE"
_FORTRAN = "OPENBLAS_* GOTO_NUM_THREADS OMP_* GFORTRAN_*"
_COMPILER = (
    "AOT* INDUCTOR_* CUTLASS_* CUTEDSL_* TRITON_* PT2_* PARTITIONER_* ENABLE_* LOG_* CI CXX "
    "DUMP_AOTI_MINIFIER FAKE_ALLOW_META UNSAFE_SKIP_FSDP_MODULE_GUARDS "
    "TMPDIR TEMP TMP HOME USER LOGNAME LNAME USERNAME"
)
_HUB = (
    "HF_* HUGGINGFACE_* HUGGING_FACE_* EAGER_IMPORT DISABLE_TELEMETRY DO_NOT_TRACK OAUTH_* "
    "OPENID_* SPACE_* XDG_CACHE_HOME HOME TMPDIR TEMP TMP OPENSSL_* "
    "TRANSFORMERS_OFFLINE CLAUDE_CONFIG_DIR"
)

# Shown with these versions, also where the tests do not have them: numpy 2.4, scipy 1.17, joblib
# 1.6, threadpoolctl 3.8, sklearn 1.9, torch 2.13, functorch 2.13, sympy 1.14, mpmath 1.3, networkx
# 3.6, fsspec 2026.9, filelock 4.2, jinja2 3.1, markupsafe 3.0, opt_einsum 3.4, ml_dtypes 0.6,
# narwhals 2.28, pandas 3.1, dateutil 4.0, PIL 13.0, yaml 6.0, requests 2.34, urllib3 2.8, certifi
# 2026.10, idna 3.20, charset_normalizer 3.5, tqdm 4.70, einops 0.8, safetensors 0.8, tokenizers
# 0.23, regex 2026.11, click 8.5, rich 15, pydantic 2.14, pydantic_core 2.50, annotated_types 0.8,
# typing_inspection 0.4, omegaconf 2.4, antlr4 4.9, attr 26, attrs 26, packaging 26,
# typing_extensions 4.16, pygments 2.21, psutil 7.2, cloudpickle 3.1, tblib 3.2, termcolor 3.3,
# docstring_parser 0.18, fire 0.7, tyro 1.0, hydra 1.3, farama_notifications 0.0, gymnasium 1.4,
# huggingface_hub 2.4, accelerate 1.15, transformers 5.24.
# A submodule that reads or sets more than its package has an entry of its own.
_LIST: dict[str, _Entry] = {
    "numpy": _Entry(f"NPY_* NUMPY_* {_FORTRAN}"),
    "scipy": _Entry("SCIPY_* SOURCE_DATE_EPOCH HOME OPENSSL_*", needs="numpy charset_normalizer"),
    "joblib": _Entry(
        "JOBLIB_* LOKY_* HOME OPENSSL_*",
        sets="KMP_INIT_AT_FORK",
        needs="numpy psutil cloudpickle",
        unless="dask distributed",
    ),
    "threadpoolctl": _Entry(sets="KMP_DUPLICATE_LIB_OK"),
    "sklearn": _Entry(
        f"SKLEARN_* {_OPENMP}",
        needs="numpy scipy joblib threadpoolctl pandas rich narwhals",
        sets="KMP_DUPLICATE_LIB_OK KMP_INIT_AT_FORK",
    ),
    "torch": _Entry(
        # TORCHELASTIC_* is not among them: it differs between ranks, and is read when it is used.
        "TORCH_* TORCHDYNAMO_* TORCHINDUCTOR_* TORCHEXPORT_* PYTORCH_* COMPILE_STROBELIGHT_* FX_* "
        f"KINETO_* {_OPENMP} MKL_* MKLDNN_* DNNL_* ONEDNN_* INTEL_LIBITTNOTIFY64 OPENSSL_* "
        "I_MPI_NUMBER_OF_MPI_PROCESSES_PER_NODE I_MPI_PIN_MAPPING I_MPI_THREAD_LEVEL "
        "MPI_LOCALNRANKS OMPI_COMM_WORLD_LOCAL_SIZE LOGLEVEL",
        needs="numpy sympy mpmath networkx fsspec filelock jinja2 tqdm opt_einsum "
        "typing_extensions",
        later=dict.fromkeys(("optim", "DistributedDataParallel"), "torch._dynamo"),
    ),
    "torch._dynamo": _Entry(_COMPILER, sets="TORCHINDUCTOR_CACHE_DIR"),
    "torch._inductor": _Entry(_COMPILER, sets="TORCHINDUCTOR_CACHE_DIR"),
    "torch._functorch": _Entry(_COMPILER),
    "functorch": _Entry(needs="torch"),
    "sympy": _Entry("SYMPY_*", needs="mpmath"),
    "mpmath": _Entry("MPMATH_* SAGE_ROOT"),
    "networkx": _Entry("NETWORKX_* _NETWORKX_BUILDING_DOCS_"),
    "fsspec": _Entry("FSSPEC_* HOME"),
    "jinja2": _Entry(needs="markupsafe"),
    "opt_einsum": _Entry(needs="numpy"),
    "ml_dtypes": _Entry(needs="numpy"),
    "pandas": _Entry(
        "PANDAS_* PYTHONTZPATH HOME",
        needs="numpy dateutil",
        unless="pyarrow numexpr",
    ),
    "dateutil": _Entry("PYTHONTZPATH HOME"),
    "PIL": _Entry("PILLOW_*"),
    "requests": _Entry("OPENSSL_*", needs="urllib3 certifi charset_normalizer idna"),
    "urllib3": _Entry("OPENSSL_*"),
    "tqdm": _Entry("TQDM_*"),
    "safetensors": _Entry(needs="numpy torch"),
    "tokenizers": _Entry("TOKENIZERS_* RAYON_*"),
    "pydantic": _Entry("PYDANTIC_*", needs="pydantic_core annotated_types typing_inspection"),
    "pydantic_core": _Entry(needs="typing_extensions"),
    "annotated_types": _Entry(needs="typing_extensions"),
    "typing_inspection": _Entry(needs="typing_extensions"),
    "omegaconf": _Entry(needs="yaml attr antlr4"),
    "attrs": _Entry(needs="attr"),
    "psutil": _Entry("PSUTIL_*"),
    "fire": _Entry(needs="termcolor"),
    "tyro": _Entry(needs="docstring_parser typing_extensions"),
    "hydra": _Entry("HYDRA_*", needs="omegaconf packaging"),
    "gymnasium": _Entry(
        sets="PYGAME_HIDE_SUPPORT_PROMPT",
        needs="numpy typing_extensions farama_notifications cloudpickle",
        unless="ale_py shimmy",  # which it imports as its plugins
    ),
    "huggingface_hub": _Entry(
        _HUB,
        needs="filelock packaging tqdm yaml typing_extensions idna",
    ),
    "accelerate": _Entry(
        f"ACCELERATE_* USE_TORCH_XLA COLUMNS LINES {_COMPILER}",
        needs="torch huggingface_hub safetensors packaging psutil rich yaml",
        unless="deepspeed torch_xla torch_npu torch_mlu torch_musa comet_ml mlflow",
    ),
    "transformers": _Entry(
        f"TRANSFORMERS_* CI COLUMNS LINES USE_TORCH_XLA ACCELERATE_* SM_HP_MP_PARAMETERS "
        f"SAGEMAKER_JOB_NAME {_HUB}",
        needs="torch numpy scipy PIL huggingface_hub tokenizers safetensors regex jinja2 rich "
        "accelerate",
        later=dict.fromkeys(
            _words(
                "AutoConfig AutoTokenizer AutoModel AutoModelForCausalLM "
                "AutoModelForSequenceClassification"
            ),
            "transformers.models.auto.modeling_auto",
        ),
    ),
    **dict.fromkeys(
        _words(
            "filelock markupsafe narwhals yaml certifi idna charset_normalizer einops regex click "
            "rich antlr4 attr packaging typing_extensions pygments cloudpickle tblib termcolor "
            "docstring_parser farama_notifications procession"
        ),
        _Entry(),
    ),
}

_PER_RANK = "it reads the environment of its rank when it is imported"
_DEVICES = "it may start the device's runtime when it is imported, which no fork survives"
_THREADS = "it starts threads when it is imported"
_TENSORBOARD = "it imports TensorBoard, and that TensorFlow where it is installed"
_REPORTS = "it imports what it reports to"
_FRAMEWORK = "it imports the framework that it is for"
_WARNS = "it warns when it is imported"
# Passed over, with their submodules: each rank imports them, and the reading goes on.
_NOT: dict[str, str] = {
    **dict.fromkeys(_words("jax jaxlib flax optax haiku orbax chex"), _PER_RANK),
    **dict.fromkeys(_words("tensorflow keras tf_keras tensorboard tensorboardX"), _PER_RANK),
    **dict.fromkeys(_words("cupy pycuda pyopencl cudf cuml numba apex triton"), _DEVICES),
    **dict.fromkeys(_words("bitsandbytes flash_attn vllm xformers envpool"), _DEVICES),
    **dict.fromkeys(_words("pyarrow datasets polars numexpr ray zmq grpc"), _THREADS),
    **dict.fromkeys(_words("torch.utils.tensorboard torch.contrib"), _TENSORBOARD),
    **dict.fromkeys(_words("tqdm.notebook tqdm.autonotebook tqdm.gui tqdm.tk"), _REPORTS),
    **dict.fromkeys(_words("tqdm.keras tqdm.dask tqdm.contrib.discord"), _REPORTS),
    **dict.fromkeys(_words("tqdm.contrib.slack tqdm.contrib.telegram"), _REPORTS),
    **dict.fromkeys(_words("einops.layers safetensors.flax safetensors.mlx"), _FRAMEWORK),
    **dict.fromkeys(_words("safetensors.paddle safetensors.tensorflow"), _FRAMEWORK),
    "wandb": "it makes temporary directories when it is imported",
    "matplotlib": "it reads a file in the working directory, and may keep a temporary directory",
    "h5py": "it runs a program when it is imported",
    "loguru": "it keeps the standard error stream of the process that imports it",
    "pkg_resources": "it reads all of sys.path when it is imported",
    "cv2": "it loads libraries by a path that it sets, and starts threads when it is used",
    "absl": "it changes how modules are found when it is imported",
    "numpy.distutils": "it changes how the standard library builds",
    "torch.utils.cpp_extension": "it looks for compilers, and setuptools changes sys.path",
    "torch.testing._internal": "it is torch's own test suite",
    "torch._inductor.compile_worker": "it is a program",
    "transformers.trainer": "it imports datasets, which starts threads",
    "PIL.ImageTk": "it needs tkinter",
    # Of the standard library:
    **dict.fromkeys(
        _words(
            "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 "
            "mailcap msilib nis nntplib ossaudiodev pipes smtpd sndhdr spwd sre_compile "
            "sre_constants sre_parse sunau telnetlib uu xdrlib"
        ),
        _WARNS,
    ),
    **dict.fromkeys(("readline", "rlcompleter"), "it takes hold of the terminal"),
    **dict.fromkeys(("tkinter", "turtle", "turtledemo", "idlelib"), "it belongs to a display"),
    **dict.fromkeys(("this", "__hello__", "__phello__"), "it prints"),
    **dict.fromkeys(("ensurepip", "venv"), "it is a program"),
    **dict.fromkeys(
        _words("site sitecustomize usercustomize"), "the interpreter imports it itself"
    ),
    "antigravity": "it opens a browser",
    "test": "it is Python's own test suite",
}

_MPI = "it starts MPI when it is imported"
_PATCHES = "it changes packages that are imported after it"
_BACKEND = "it is a backend that must be imported before or right after torch"
# The reading ends there: what is imported after them must not be imported before.
FIRST: dict[str, str] = {
    **dict.fromkeys(_words("mpi4py petsc4py slepc4py horovod"), _MPI),
    **dict.fromkeys(_words("unsloth deepspeed colossalai ipex_llm comet_ml sklearnex"), _PATCHES),
    **dict.fromkeys(_words("torch_xla libtpu torch_neuronx torch_npu torch_musa"), _BACKEND),
    **dict.fromkeys(_words("habana_frameworks intel_extension_for_pytorch"), _BACKEND),
    **dict.fromkeys(_words("oneccl_bindings_for_pytorch torch_directml"), _BACKEND),
    "isaacgym": "it refuses to be imported after torch",
    "setuptools": "it changes sys.path and puts its own distutils before the standard library's",
}

UNKNOWN = "nothing is known of it"
_STANDARD_READS = {
    "pydoc": "HOME",
    "sysconfig": "HOME",
    "trace": "HOME",
    "zoneinfo": "HOME PYTHONTZPATH",
    "optparse": "LANGUAGE LC_ALL LC_MESSAGES LANG",
    "ssl": "OPENSSL_*",
    "hashlib": "OPENSSL_*",
    "xmlrpc": "HOME",
}


@cache
def verdict(module: str) -> ForkSafety:
    """Tell whether the module of this dotted name may be imported before a fork.

    A submodule counts as its package unless it is listed by itself. Never raises: what is no name
    of a module is not safe.
    """
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return ForkSafety("it is no name of a module")
    if parts[-1] == "__main__":
        return ForkSafety("it is a program")
    above = with_packages(module)
    for name in above:
        reason = _NOT.get(name) or FIRST.get(name)
        if reason is not None:
            return ForkSafety(reason)
    if parts[0] in sys.stdlib_module_names:
        return ForkSafety("", _words(_STANDARD_READS.get(parts[0], "")))
    if parts[0] not in _LIST:
        return ForkSafety(UNKNOWN)
    return _made(tuple(name for name in above if name in _LIST))


@cache
def _made(listed: tuple[str, ...]) -> ForkSafety:
    """Make the verdict that all modules share which have these entries, the package's first."""
    names = [*listed]
    for name in names:  # and all that they import
        names.extend(n for n in _LIST[name].needs.split() if n not in names)
    entries = [_LIST[name] for name in names]
    return ForkSafety(
        "",
        _words(*(e.reads for e in entries)),
        _words(*(e.sets for e in entries)),
        _words(*(e.unless for e in entries)),
        _words(*(e.needs for e in entries)),
    )


def why_not(module: str, search: Search) -> str:
    """Give why a module may not be imported before a fork, "" if it may: by all that is found."""
    its = verdict(module)
    if its.reason:
        return its.reason
    kind = search.find(module).kind
    if module.partition(".")[0] in sys.stdlib_module_names and kind in (
        ModuleKind.INSTALLED,
        ModuleKind.LOCAL,
    ):
        return "it is not the standard library's"
    for each in {*search.left_out} & {module.partition(".")[0], *its.needs}:
        return f"importing {each} {search.left_out[each]}"
    for other in its.unless:
        if search.find(other).kind is not ModuleKind.MISSING:
            return f"it imports {other}, which is not known to be safe"
    hidden = search.in_the_way(its.needs)
    return f"{hidden[1]} hides the module {hidden[0]}, which it may import" if hidden else ""


def reads(modules: Iterable[str]) -> tuple[str, ...]:
    """Give the environment variables that these modules read when they are imported.

    `X_*` stands for all that begin with `X_`.
    """
    verdicts = {id(v): v for v in map(verdict, modules)}  # many modules share one
    return tuple(dict.fromkeys(name for v in verdicts.values() for name in v.variables))


def later(package: str) -> Mapping[str, str]:
    """Give the names of a package whose first use imports a submodule, and that submodule."""
    entry = _LIST.get(package)
    return {} if entry is None else entry.later


def packages() -> frozenset[str]:
    """Give the names of all listed packages that are not of the standard library."""
    return frozenset(name for name in _LIST if "." not in name)
