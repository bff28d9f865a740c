"""Which calls, base classes and decorators are known to change nothing that an import could see.

By full name. None of them calls what it is given, at once or when something is looked up in its
result; so a program cannot have code of its own run by them.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _under(prefix: str, names: str) -> set[str]:
    return {f"{prefix}.{name}" for name in names.split()}


# These give a path, which is known to be one.
PATHS = frozenset(
    _under("pathlib", "Path PurePath")
    | _under("pathlib.Path()", "absolute expanduser joinpath resolve with_name with_suffix")
)

CALLS = PATHS | frozenset(
    _under(
        "builtins",
        "abs bool bytes dict enumerate float frozenset int len list max min object range round "
        "set slice sorted str sum tuple zip",
    )
    | _under("os", "getenv environ.get fspath")
    | _under(
        "os.path",
        "abspath basename dirname exists expanduser isdir isfile join normpath realpath relpath "
        "splitext",
    )
    | _under("pathlib.Path()", "as_posix exists is_dir is_file")
    | _under("logging", "getLogger NullHandler")
    | _under("typing", "TypeVar ParamSpec TypeVarTuple NewType cast")
    | _under("collections", "namedtuple OrderedDict deque")
    | _under("dataclasses", "field dataclass")
    | _under("functools", "partial lru_cache")
    | _under("enum", "auto")
    | _under("re", "compile")
    | _under("threading", "Lock RLock local Event")
    | _under("contextvars", "ContextVar")
    | _under("datetime", "timedelta")
    | _under("itertools", "count")
    | _under("operator", "itemgetter attrgetter methodcaller")
    | _under("struct", "Struct")
    | _under("math", "ceil exp floor log log10 log2 sqrt")
    | _under("torch", "no_grad inference_mode")
)

# Called with a keyword (`key=`), these call what they are given.
WITHOUT_KEYWORDS = frozenset(_under("builtins", "max min sorted"))

# Methods of a text that stands there as such.
TEXT_METHODS = _words(
    "capitalize encode endswith join lower lstrip partition replace rpartition rsplit "
    "rstrip split splitlines startswith strip title upper zfill"
)

DECORATORS = frozenset(
    _under("builtins", "classmethod property staticmethod")
    | _under("functools", "cache cached_property lru_cache")
    | _under("dataclasses", "dataclass")
    | _under("abc", "abstractmethod")
    | _under("contextlib", "contextmanager asynccontextmanager")
    | _under("typing", "final no_type_check overload override runtime_checkable")
    | _under("torch", "no_grad inference_mode")
)

TYPED_DICT = frozenset(("typing.TypedDict",))
_EXCEPTIONS = (
    "ArithmeticError AssertionError AttributeError BaseException Exception ImportError IndexError "
    "KeyError LookupError NotImplementedError OSError RuntimeError StopIteration SystemExit "
    "TimeoutError TypeError UserWarning ValueError Warning"
)
BASES = (
    frozenset(
        _under("builtins", f"bool bytes dict float frozenset int list object set str tuple "
                           f"{_EXCEPTIONS}")
        | _under("abc", "ABC")
        | _under("typing", "Generic NamedTuple Protocol")
        | _under("collections", "OrderedDict UserDict")
        | _under("collections.abc", "Callable Iterable Iterator Mapping MutableMapping Sequence")
        | _under("threading", "Thread")
        | _under("unittest", "TestCase")
        | _under("logging", "Filter Formatter Handler")
        | _under("torch.nn", "Module ModuleDict ModuleList Sequential")
        | _under("torch.nn.modules", "Module")
        | _under("torch.autograd", "Function")
        | _under("torch.optim", "Optimizer")
        | _under("torch.utils.data", "Dataset IterableDataset Sampler")
        | _under("torch.utils.data.dataset", "Dataset IterableDataset")
    )
    | TYPED_DICT
)  # fmt: skip
METACLASSES = frozenset(_under("abc", "ABCMeta"))

# Their members are made, by the class's own methods, while the class is made.
ENUMS = frozenset(_under("enum", "Enum Flag IntEnum IntFlag StrEnum"))
BESIDE_ENUM = frozenset(_under("builtins", "int str"))

FALSE = frozenset(("typing.TYPE_CHECKING",))

# What a module may say of itself; its other names with two underscores steer the import system.
OWN_NAMES = _words(
    "__all__ __annotations__ __author__ __authors__ __build__ __contact__ __copyright__ "
    "__credits__ __date__ __description__ __doc__ __email__ __license__ __maintainer__ __status__ "
    "__title__ __url__ __version__ __version_info__"
)
# What a class may not define: it would be called while nothing but classes is made and looked at.
CALLED_FOR_CLASSES = _words(
    "__class__ __class_getitem__ __classcell__ __init_subclass__ __instancecheck__ __metaclass__ "
    "__mro_entries__ __prepare__ __set_name__ __subclasscheck__ __subclasshook__"
)
# By these it can be seen what has been imported.
TELLING = _words("filters loggerDict manager meta_path modules path_hooks path_importer_cache root")
TELLING_MODULES = frozenset(("gc", "logging", "os", "sys", "warnings"))
