r"""What looks like a secret, hidden in what is written down or shown. Pure.

Hidden is the value of a variable, option or `name=value` whose name says that it is a secret
(`AWS_SECRET_ACCESS_KEY=X`, `--api-key X`, `"api_key": "X"`, `Authorization: Bearer X`), and the
password of a URL (`scheme://user:X@host`). A secret without a name cannot be recognised.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

HIDDEN = "***"
_NONE = ("PWD", "OLDPWD")  # the shell's directories
_TELLING = (
    r"key|token(?!izer)|secret|passw|passphrase|credential|private|auth(?!or(?!iz))|cookie"
    r"|(?<![a-z])(?:bearer|jwt|pass|pat|pwd?|sas|sig|signature)(?![a-z])"
)
# The name with what stands between it and its value, or a URL up to its password; then the value.
_SECRET = (
    rf"(?i)((?<![\w.-])(?:--?[\w.-]{{0,99}}?(?:{_TELLING})[\w.-]{{0,99}}\s+(?!-)"
    rf"|[\w.-]{{0,99}}?(?:{_TELLING})[\w.-]{{0,99}}[\"']?\s*[=:]\s*)(?:bearer\s+|basic\s+)?)"
    r"(?:(\")[^\"]*\"|(')[^']*'|[^\s\"'&;]+)"
    r"|(?<=://)([^\s/@:'\"]*:)[^\s/'\"]+(?=@)"
)


def names_secret(name: str) -> bool:
    """Whether a name, of a variable or an option, says that its value is a secret."""
    import re

    return name not in _NONE and re.search(_TELLING, name, re.IGNORECASE) is not None


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
        name, equals, _ = word.partition("=")
        option = name.startswith("-")
        secret = " " not in name and names_secret(name)
        if follows and not option:
            shown.append(HIDDEN)
        else:
            shown.append(f"{name}={HIDDEN}" if secret and equals else masked_text(word))
        follows = secret and option and not equals
    return shown


def masked_text(text: str) -> str:
    """Hide the secrets within a text: passwords of URLs, `name=value`, `--name value`, JSON."""
    if not any(c in text for c in "=@: "):
        return text
    import re

    def hidden(found: re.Match[str]) -> str:
        name, double, single, url = found.groups("")
        quote = double or single
        return f"{name or url}{quote}{HIDDEN}{quote}"

    return re.sub(_SECRET, hidden, text)
