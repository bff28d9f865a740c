"""The manifest of docs/clusters/kubernetes.md: Kubernetes takes it, and so does procession."""

import os
import re
from pathlib import Path

import pytest

from support import run_procession

PAGE = Path(__file__).parents[2] / "docs" / "clusters" / "kubernetes.md"
VERSIONS = ("1.31", "1.37")  # the first one in which pods' failure policies are not beta any more


@pytest.fixture(name="objects")
def objects_fixture():
    yaml = pytest.importorskip("yaml")
    (manifest,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return {each["kind"]: each for each in yaml.safe_load_all(manifest)}


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_the_manifest(objects, version):
    validate = pytest.importorskip("kubernetes_validate").validate
    assert {*objects} == {"Service", "Job"}
    for each in objects.values():
        validate(each, version, strict=True)


def test_its_command_is_that_of_a_pod(objects, tmp_path):
    (container,) = objects["Job"]["spec"]["template"]["spec"]["containers"]
    Path(tmp_path, "train.py").write_text("")
    words = [*container["command"][1:], "--dry-run", *container["args"]]
    env = os.environ | {"JOB_COMPLETION_INDEX": "3"}
    done = run_procession(*words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "RANK=24" in done.stdout
    assert "WORLD_SIZE=32" in done.stdout
    assert "MASTER_ADDR=train-0.train" in done.stdout
