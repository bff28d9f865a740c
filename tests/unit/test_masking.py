"""What looks like a secret, and what does not."""

import shlex

import pytest

from seams.values import masked, masked_words, names_secret

SECRET = [
    "HF_TOKEN", "my_api_key", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "--pwd", "--auth", "PASS",
    "--db-pass", "SSH_PRIVATE", "credentials", "GITHUB_PAT", "--passphrase", "X-Sig",
    "model.token", "PGPASSWORD", "authorization", "session.cookie", "wandb_api_key", "Pwd",
]  # fmt: skip
HARMLESS = [
    "PWD", "OLDPWD", "HOME", "author", "--pattern", "compass", "TOKENIZERS_PARALLELISM", "path",
    "--bypass", "signal", "-", "", "lr", "significant",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_says_so(name):
    assert names_secret(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_does_not(name):
    assert not names_secret(name)


# A command line as one types it, and what is shown of it. X1 is the secret.
LINES = [
    ("train.py --api-key X1 a", "train.py --api-key *** a"),
    ("train.py --api-key=X1", "train.py --api-key=***"),
    ("train.py --token --verbose b", "train.py --token --verbose b"),
    ("find . -print -path a", "find . -print -path a"),
    ("x --pwd X1", "x --pwd ***"),
    ("x --auth='Bearer X1'", "x --auth=***"),
    ("curl -H 'Authorization: Bearer X1' y", "curl -H 'Authorization: Bearer ***' y"),
    ("train.py api_key=X1 lr=3", "train.py api_key=*** lr=3"),
    ("train.py ++logger.api_key=X1", "train.py ++logger.api_key=***"),
    ("train.py api_key='X1 and X1,X1'", "train.py api_key=***"),
    ("-x AWS_SECRET_ACCESS_KEY=X1 -x A=b", "-x AWS_SECRET_ACCESS_KEY=*** -x A=b"),
    ("-xDB_PASSWORD=X1 --env=DB_PASSWORD=X1", "-xDB_PASSWORD=*** --env=DB_PASSWORD=***"),
    ("git clone https://me:X1@host/a", "git clone https://me:***@host/a"),
    ("x --url=https://me:X1@host:80/a", "x --url=https://me:***@host:80/a"),
    ("x postgres://me:X1@X1@host/db", "x postgres://me:***@host/db"),
    ("x https://me@host https://host:80/a@b", "x https://me@host https://host:80/a@b"),
    ("x 'https://h/?a=b&token=X1&c=d'", "x 'https://h/?a=b&token=***&c=d'"),
    ("""x '{"a": 1, "api_key": "X1, X1", "b": 2}'""",
     """x '{"a": 1, "api_key": "***", "b": 2}'"""),
    ("sh -c 'cd /a; TOKEN=X1 run --lr 3'", "sh -c 'cd /a; TOKEN=*** run --lr 3'"),
    ("sh -c 'run --password X1 --lr 3'", "sh -c 'run --password *** --lr 3'"),
    ("""sh -c 'run --password "X1 X1" -p 3'""", "sh -c 'run --password \"***\" -p 3'"),
    ("sh -c 'mkdir -p /tmp/a && ls'", "sh -c 'mkdir -p /tmp/a && ls'"),
    ("x 'Server=a;Pwd=X1;Timeout=3'", "x 'Server=a;Pwd=***;Timeout=3'"),
    ("keyboard token C:/a b:c", "keyboard token C:/a b:c"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("line", "shown"), LINES, ids=[line for line, _ in LINES])
def test_a_command_line(line, shown):
    words = masked_words(shlex.split(line))
    assert words == shlex.split(shown)
    assert not any("X1" in word for word in words)
    assert masked_words(words) == words


def test_variables():
    kept = {"HOME": "/root", "EMPTY_KEY": "", "GONE": None, "TOKEN": None, "PWD": "/here"}
    env = {"HF_TOKEN": "X1", "URL": "redis://:X1@host", "OPTIONS": "--password X1 -v"}
    hidden = {"HF_TOKEN": "***", "URL": "redis://:***@host", "OPTIONS": "--password *** -v"}
    assert masked({**kept, **env}) == {**kept, **hidden}
