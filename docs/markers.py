"""Text that is written into a page, between two markers."""


def between(page: str, name: str, text: str) -> str:
    """Put text between the markers of this name. Raises ValueError if they are not there."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page must hold {begin} and, below, {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
