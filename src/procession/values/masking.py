r"""What looks like a secret, hidden in what is written down or shown. Pure.

The one place that decides what a secret looks like: for variables (`masked`), for the words of
command lines (`masked_words`), and for texts within them (`masked_text`). Hidden is the value of

- a variable, an option or a `name=value` with a telling name: `AWS_SECRET_ACCESS_KEY=X`,
  `--api-key X`, `model.token=X`, `-x DB_PASSWORD=X`, `"api_key": "X"`;
- `-p X` and `-pX1`, as clients of databases take their passwords;
- `Authorization: Bearer X` and the like, in one word or in several;
- a password in a URL, `https://user:X@host`, and in its query, `?token=X`.

To hide too much (the port of `-p 80`) costs a reader little; a secret in a file that is kept costs
more. A secret without a name cannot be recognised.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

HIDDEN = "***"
# Anywhere in a name, in capitals; and as one of the words that it is made of.
_PARTS = ("KEY", "TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "PRIVATE", "APIKEY")
_WORDS = frozenset(
    ("AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "JWT", "PASS", "PAT", "PW", "PWD", "SAS", "SIG",
     "SIGNATURE")
)  # fmt: skip
_NONE = ("PWD", "OLDPWD")  # the shell's directories
_SCHEMES = ("basic", "bearer", "token")  # stand before the secret itself

# Every launch runs this, and most command lines contain none of these: they are compiled when
# needed.
_URL = r"([A-Za-z][\w+.-]*://)([^\s/@:'\"]*)(:?)([^\s/@'\"]*(?:@[^\s/@'\"]*)*)@"
_LONG_USER = 20  # characters: a longer user name is a token
_NAMED = r"""([A-Za-z_][\w.-]*)(["']?\s*=\s*|["']\s*:\s*)(["']?)"""
_OPTION = r"""(?<!\S)(--?[A-Za-z][\w-]*)(\s+)("[^"]*"|'[^']*'|[^\s"'-]\S*)"""
_BEARER = r"(?i)\b(bearer)\s+[^\s'\"]+"


def names_secret(name: str) -> bool:
    """Whether a name, of a variable or an option, says that its value is a secret."""
    if name in _NONE:
        return False
    if any(part in name.upper().replace("TOKENIZER", "") for part in _PARTS):
        return True
    return any(piece in _WORDS for piece in _pieces(name))


def _pieces(name: str) -> list[str]:
    """Give the words that a name is made of, in capitals: `dbAuth_pwd` is DB, AUTH and PWD."""
    spaced = ""
    for before, c in zip(" " + name, name, strict=False):
        spaced += " " if c.isupper() and before.islower() else ""
        spaced += c if c.isalnum() else " "
    return spaced.upper().split()


def masked(env: Mapping[str, str | None]) -> dict[str, str | None]:
    """Hide the values of variables whose names say that they are secret, and secrets in others."""
    return {
        name: HIDDEN if value and names_secret(name) else value and masked_text(value)
        for name, value in env.items()
    }


def masked_words(words: Sequence[str]) -> list[str]:
    """Hide the secrets of a command line."""
    shown: list[str] = []
    follows = False  # whether the next word is a secret
    for word in words:
        name, equals, value = word.lstrip("'\"").partition("=")
        option = name.startswith("-")
        secret = names_secret(name) if option or equals else False
        if follows and not option:
            shown.append(HIDDEN)
            follows = value == "" and word.lower() in _SCHEMES  # `--auth Bearer X`
            continue
        if secret and equals and " " not in name:
            shown.append(f"{word[: word.index('=') + 1]}{HIDDEN}")
            follows = value.lower() in _SCHEMES  # `--auth=Bearer X`, as a shell splits it
            continue
        if _is_password(word):
            shown.append(f"-p{HIDDEN}")
        else:
            shown.append(_header(word) or masked_text(word))
        header = word.lower() == "bearer" or (word.endswith(":") and names_secret(word[:-1]))
        follows = header or word == "-p" or (secret and option and not equals)
    return shown


def _is_password(word: str) -> bool:
    """Whether a word is `-pX1`, and no option such as -print."""
    return word.startswith("-p") and any(not c.islower() and c != "-" for c in word[2:])


def _header(word: str) -> str:
    """Hide the value of a header, `Authorization: Bearer X`; "" if it is none."""
    name, _, value = word.partition(":")
    if value.strip() and name.replace("-", "").isalnum() and names_secret(name):
        return f"{name}: {HIDDEN}"
    return ""


def masked_text(text: str) -> str:
    """Hide the secrets within a text: passwords of URLs, `name=value`, `--name value`, JSON."""
    several = " " in text or any(c.isspace() for c in text)
    if not several and not any(c in text for c in "=@:"):
        return text
    import re

    text = re.sub(_URL, _masked_url, text)
    if several:
        text = re.sub(_BEARER, rf"\1 {HIDDEN}", text)
        text = re.sub(_OPTION, _masked_option, text)
    return _masked_named(text)


def _masked_url(found: re.Match[str]) -> str:
    scheme, user, colon, password = found.groups()
    if colon:
        return f"{scheme}{user}:{HIDDEN}@"
    whole = user + password
    return f"{scheme}{HIDDEN if len(whole) >= _LONG_USER else whole}@"


def _masked_option(found: re.Match[str]) -> str:
    option, space, _ = found.groups()
    return f"{option}{space}{HIDDEN}" if names_secret(option) else found[0]


def _masked_named(text: str) -> str:
    import re

    parts: list[str] = []
    at = 0
    for found in re.finditer(_NAMED, text):
        if found.start() < at or not names_secret(found[1]):
            continue
        quote = found[3]
        end = text.find(quote, found.end()) if quote else -1
        if end < 0:
            behind = re.search(r"[\s\"'&;]", text[found.end() :])
            end = found.end() + behind.start() if behind else len(text)
        if end > found.end():
            parts += [text[at : found.end()], HIDDEN]
            at = end
    return "".join([*parts, text[at:]])
