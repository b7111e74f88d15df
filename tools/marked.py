"""The generated part of a page, which stands between two marks."""


def replaced(text: str, begin: str, end: str, content: str) -> str:
    """The page with this between its marks; what people have written around them stays."""
    head, _, rest = text.partition(begin)
    tail = rest.partition(end)[2]
    return f"{head}{begin}\n\n{content}\n\n{end}{tail}"
