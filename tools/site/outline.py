"""The contents of a page that shows a source file: its functions, and the lines where they begin."""
import html
import re

BEGINNINGS = {
    ".c": r"^[a-z][\w \*]*?(\w+)\([^;{}]*\)\n\{",
    ".h": r"^[a-z][\w \*]*?(\w+)\([^{}]*?\)(?:;|\n\{)",
    ".lua": r"^(?:local )?function ([\w.:]+)|^(?:local )?([\w.]+) = function\(",
    ".py": r"^(?:def|class) (\w+)",
}


def functions(suffix, text):
    """[(name, line)]; the suffix is that of the file's name."""
    if suffix not in BEGINNINGS:
        return []
    return [(next(filter(None, match.groups())), text.count("\n", 0, match.start()) + 1)
            for match in re.finditer(BEGINNINGS[suffix], text, flags=re.M)]


def contents(suffix, text):
    """The functions as a list of links to lines, as HTML; nothing if there is none."""
    items = "".join(f'<li><a href="#line-{line}"><code>{html.escape(name)}</code></a></li>\n'
                    for name, line in functions(suffix, text))
    return f"<ul>\n{items}</ul>" if items else ""
