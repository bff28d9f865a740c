"""What reaches ranks by name, and what by value: all origins, by all ways to start ranks."""

import json

import pytest

from support import METHODS, run_python, write

# Makes a function of each origin, in a directory of its own, and calls each in a rank: what it was
# told to write is what this process's function would have written.
TABLE = """
    import functools, importlib.util, json, multiprocessing, os, sys, types

    import procession, procession.elastic, procession.multiprocessing
    here = os.path.dirname(os.path.abspath(__file__))
    SAYS = "def f(rank, path):\\n    open(path, 'w').write(helper() + Text.end)\\n"
    SAYS += "def helper():\\n    return {!r}\\nclass Text:\\n    end = '!'\\n"

    def source(name, where="."):
        os.makedirs(os.path.join(here, where), exist_ok=True)
        path = os.path.join(here, where, name + ".py")
        with open(path, "w") as f:
            f.write(SAYS.format(name))
        return path

    def loaded(name, path):
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def f(rank, path):
        open(path, "w").write(helper() + Text.end)

    def helper():
        return "main"

    class Text:
        end = "!"

    class Callable:
        def __call__(self, rank, path):
            f(rank, path)
        def method(self, rank, path):
            f(rank, path)

    def origins():
        source("plain")
        import plain
        source("part", "folder")
        loaded("folder", source("__init__", "folder"))
        part = loaded("folder.part", os.path.join(here, "folder", "part.py"))
        path_loaded = loaded("by_path", source("by_path", "elsewhere"))
        source("plain", "other")
        same_name = loaded("json_of_mine", source("json_of_mine", "other"))
        source("json_of_mine")  # another one, which its name finds
        made = types.ModuleType("made")
        exec(SAYS.format("made"), made.__dict__)
        sys.modules["made"] = made
        path = source("removed")
        import removed
        os.remove(path)
        scope = {"__name__": "nowhere"}
        exec(SAYS.format("scope"), scope)
        return {
            "plain": plain.f, "part": part.f, "by_path": path_loaded.f, "made": made.f,
            "json_of_mine": same_name.f, "removed": removed.f,
            "main": f, "scope": scope["f"],
            "main (lambda)": lambda rank, path: f(rank, path),
            "main (partial)": functools.partial(f),
            "main (callable)": Callable(), "main (method)": Callable().method,
            **{f"{n} (lambda)": functools.partial(lambda g, *a: g(*a), g)
               for n, g in (("made", made.f), ("by_path", path_loaded.f))},
            "removed (method)": functools.partial(removed.f),
        }

    def call(function, path):
        face, method = sys.argv[1:3]
        if face == "run":
            procession.run(function, args=(0, path), nproc=1, start_method=method)
        elif face == "multiprocessing":
            procession.multiprocessing.start_processes(function, (path,), 1, start_method=method)
        else:
            specs = procession.elastic.DefaultLogsSpecs(os.path.join(here, "logs"))
            args, envs = {0: (0, path)}, {0: {}}
            started = procession.elastic.start_processes(
                "f", function, args, envs, specs, start_method=method
            )
            assert not started.wait(60).is_failed()

    def all_of_them():
        said = {}
        for name, function in origins().items():
            path = os.path.join(here, "written")
            call(function, path)
            said[name] = open(path).read()
            os.remove(path)
        print(json.dumps(said))

    if __name__ == "__main__":
        if sys.argv[3] == "True":
            process = multiprocessing.get_context("spawn").Process(target=all_of_them)
            process.start()
            process.join()
        else:
            all_of_them()
    """


@pytest.mark.parametrize("child", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("face", ["run", "multiprocessing", "elastic"])
@pytest.mark.parametrize("method", METHODS)
def test_functions_of_all_origins(tmp_path, face, method, child):
    script = write(tmp_path / "main.py", TABLE)
    done = run_python(script, face, method, child, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    assert len(said) == 15
    assert said == {name: f"{name.partition(' ')[0]}!" for name in said}


@pytest.mark.parametrize("method", METHODS[:2])
def test_file_names_and_lines_are_those_of_the_launcher(tmp_path, method):
    """In tracebacks, warnings and of inspect; of functions that ranks give back as well."""
    script = write(
        tmp_path / "main.py",
        f"""
        import inspect, warnings
        import procession

        def work():
            warnings.warn("said here")
            def inner():
                pass
            print(inspect.getsource(inner).strip().replace("\\n", ";"))
            return inspect.getsource(work).splitlines()[0], inner

        made = lambda: 1 / 0
        [(first, inner)] = procession.run(work, start_method="{method}")
        print(first, inner.__code__.co_filename == __file__)
        procession.run(made, start_method="{method}")
        """,
    )
    done = run_python(script, cwd=tmp_path)
    assert "def inner():;" in done.stdout, done.stderr
    assert done.stdout.endswith("def work(): True\n"), done.stderr
    assert f"{script}:5: UserWarning: said here" in done.stderr
    assert f'File "{script}", line 11, in <lambda>' in done.stderr
    assert "made = lambda: 1 / 0" in done.stderr
    assert "dynamic-code" not in done.stderr
