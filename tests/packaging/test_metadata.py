"""What stands in several files about the package says the same everywhere."""

import re
import sys
from pathlib import Path

import pytest
import yaml

import procession

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def recipe():
    return yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())


def test_the_version(project, recipe):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    versions = (citation["version"], recipe["context"]["version"], procession.__version__)
    assert versions == (project["version"],) * 3


def test_the_recipe_needs_what_the_package_needs(project, recipe):
    def parts(requirement):
        found = re.match(r"([\w-]+) ?>=([\d.]+)", requirement)
        return found.groups() if found else (requirement, "")

    asked = {*map(parts, project["dependencies"]), ("python", project["requires-python"][2:])}
    assert set(map(parts, recipe["requirements"]["run"])) == {*asked, ("__linux", "")}
    commands = dict(line.split(" = ") for line in recipe["build"]["python"]["entry_points"])
    assert commands == project["scripts"]


@pytest.mark.parametrize("form", ["fault", "wish", "unclear"])
def test_an_issue_form(form):
    said = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yml").read_text())
    assert said.keys() == {"name", "description", "labels", "body"}
    assert len({part["id"] for part in said["body"]}) == len(said["body"])
    assert all(part["attributes"]["label"] for part in said["body"])
