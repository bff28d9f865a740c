"""What the Ray engine refuses and says, without Ray."""

import pytest

from seams.ray import RayEngine, as_started, asked, said
from seams.values import SpecError


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"nnodes": 0}, "nnodes=0"),
        ({"spares": -1}, "spares=-1"),
        ({"cpus": -1}, "-1 CPU"),
        ({"gpus": 1.5}, "1.5 GPU: Ray counts whole ones"),
        ({"cpus": 0}, "no resources"),
    ],
)
def test_numbers_that_make_no_sense(options, why):
    with pytest.raises(SpecError, match=why):
        RayEngine(**options)


def test_resources_in_words():
    assert asked({"CPU": 2.0, "GPU": 0.5}) == "2 CPU, 0.5 GPU"


def test_what_ray_added_is_taken_away_and_what_a_person_said_is_kept():
    now = {"OMP_NUM_THREADS": "8", "PYTHONBREAKPOINT": "ray.set_trace", "CUDA_VISIBLE_DEVICES": "1"}
    assert as_started(now, {}) == {"CUDA_VISIBLE_DEVICES": "1"}
    assert as_started(now, {"OMP_NUM_THREADS": "8"})["OMP_NUM_THREADS"] == "8"


def test_an_exception_of_ray_in_a_line():
    died = (
        "The actor died unexpectedly before finishing this task.\n\tclass_name: A\n\tpid: 11657\n"
        "The actor is dead because it was killed by `ray.kill`."
    )
    assert said(RuntimeError(died)) == (
        "The actor died unexpectedly before finishing this task. "
        "The actor is dead because it was killed by `ray.kill`."
    )
    assert said(
        RuntimeError("Traceback:\n  File x\nModuleNotFoundError: No module named 'x'\n")
    ) == ("ModuleNotFoundError: No module named 'x'")
    missing = (
        "The actor died because of an error raised in its creation task, ray::NodeActor (pid=7, "
        "ip=192.0.2.2, repr=x)\nRuntimeError: The actor with name NodeActor failed to import on "
        "the worker. This may be\nModuleNotFoundError: No module named 'procession'"
    )
    assert said(RuntimeError(missing)) == (
        "procession cannot be imported on 192.0.2.2 (ModuleNotFoundError: No module named "
        "'procession'): install it on all nodes"
    )
    assert said(RuntimeError()) == "RuntimeError"
