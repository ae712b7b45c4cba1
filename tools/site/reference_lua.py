"""The Lua reference, as Markdown, made from types/orrery.lua: every class with its fields and functions.

What is read is what LuaLS reads: `---` comments with @-tags above a class, an alias or a function.  A line that is not understood is an
error, so that nothing is left out in silence.
"""
import re

TAG = re.compile(r"---@(\w+)\s*(.*)")
FUNCTION = re.compile(r"function (\w+)([.:])(\w+)\((.*)\) end$")


class Class:
    def __init__(self, name, text):
        self.name, self.text = name, text
        self.fields, self.functions = [], []
        self.variable = None


class Comment:
    """A run of `---` lines: words, and tags in their order.  Words above a field describe that field."""

    def __init__(self):
        self.words, self.tags, self.of_field = [], [], []

    def add(self, line, number):
        tag = TAG.match(line)
        if tag:
            if self.of_field and tag[1] != "field":
                raise SystemExit(f"types/orrery.lua:{number}: words that are not above a field: {self.of_field[-1]}")
            self.tags.append((tag[1], " ".join([tag[2], *self.of_field])))
            self.of_field = []
        elif line.startswith("---|"):
            self.tags.append(("choice", line[4:].strip()))
        elif self.all("class"):
            self.of_field.append(line[3:].strip())
        elif self.tags:
            raise SystemExit(f"types/orrery.lua:{number}: words after a tag: {line}")
        else:
            self.words.append(line[3:].strip())

    def all(self, name):
        return [value for tag, value in self.tags if tag == name]

    def text(self):
        return re.sub(r" +", " ", " ".join(self.words))


def parse(text):
    """Returns the classes, in order, and the aliases by name."""
    classes, aliases, by_variable = [], {}, {}
    comment, current = Comment(), None
    for number, line in enumerate(text.split("\n"), 1):
        function = FUNCTION.match(line)
        local = re.match(r"local (\w+) = \{\}", line)
        if re.match(r"-{60,}", line) or line.startswith("-- ") or line.startswith("---@meta") or line.startswith("return "):
            continue
        if line.startswith("---"):
            comment.add(line, number)
            continue
        if comment.of_field:
            raise SystemExit(f"types/orrery.lua:{number}: words that are not above a field: {comment.of_field[-1]}")
        if comment.all("class"):
            current = Class(comment.all("class")[0], comment.text())
            current.fields = comment.all("field")
            classes.append(current)
        for alias in comment.all("alias"):
            aliases[alias] = comment.all("choice")
        if local and current:
            by_variable[local[1]] = current
            current.variable = local[1]
        elif function:
            by_variable[function[1]].functions.append((function, comment))
        elif line.strip():
            raise SystemExit(f"types/orrery.lua:{number}: not understood: {line}")
        comment = Comment()
    return classes, aliases


def split_type(text):
    """Splits a type, which may have spaces inside brackets or around `|`, from its description."""
    depth, i = 0, 0
    while i < len(text):
        c = text[i]
        depth += (c in "({[<") - (c in ")}]>")
        if c == " " and depth == 0:
            rest = text[i:]
            if rest.startswith(" | "):
                i += 3
                continue
            if not text[:i].endswith(":") and not text[:i].endswith(","):
                break
        i += 1
    return text[:i], text[i:].strip()


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def cell(text):
    return text.replace("|", "\\|")


def code(text):
    return f"`{text}`"  # in which a bar is no border


def parameter(text):
    name, rest = text.split(" ", 1)
    kind, words = split_type(rest)
    return name, kind, words


def result(text):
    """Splits `type [name [description]]`."""
    kind, rest = split_type(text)
    name, _, words = rest.partition(" ")
    return kind, name, words


def function_lines(match, comment):
    owner = match[1] if match[1].islower() else snake(match[1])
    title = f"{owner}{match[2]}{match[3]}"
    yield f"### `{title}({match[4]})`"
    yield ""
    if comment.tags and ("async", "") in comment.tags:
        yield "*Suspends the task that calls it.* " + comment.text()
    else:
        yield comment.text()
    yield ""
    rows = [(code(name.rstrip("?")), code(kind) + (", may be left out" if name.endswith("?") else ""), words)
            for name, kind, words in map(parameter, comment.all("param"))]
    rows += [("returns" + (f" *{name}*" if name else ""), code(kind), words) for kind, name, words in map(result, comment.all("return"))]
    rows += [("or", code(overload.replace("fun(", title + "(", 1).replace("async ", "")), "") for overload in comment.all("overload")]
    if rows:
        yield "| | | |"
        yield "| --- | --- | --- |"
        for first, second, words in rows:
            yield f"| {first} | {second} | {cell(words)} |"
        yield ""


def class_lines(each):
    title = each.name.removeprefix("orrery.")
    yield f"## {title}"
    yield ""
    yield each.text
    yield ""
    if each.fields:
        yield "| field | | |"
        yield "| --- | --- | --- |"
        for name, kind, words in map(parameter, each.fields):
            yield f"| {code(name.rstrip('?'))} | {code(kind)}{', may be left out' if name.endswith('?') else ''} | {cell(words)} |"
        yield ""
    for match, comment in each.functions:
        yield from function_lines(match, comment)


def alias_lines(name, choices):
    yield f"## {name.removeprefix('orrery.')}"
    yield ""
    for choice in choices:
        value, _, words = choice.partition("#")
        yield f"- `{value.strip()}`{': ' + words.strip() if words else ''}"
    yield ""


def reference(text):
    classes, aliases = parse(text)
    lines = ["# Lua reference", "",
             "Every function of the Lua API, made from `types/orrery.lua`. Editors that know LuaLS show the same as you type. "
             "`require \"orrery\"` returns a table with the modules; a host may also make it a global. Times are "
             "milliseconds, fractions allowed. Misuse raises an error; an expected failure returns `nil` and the reason.", ""]
    for each in classes:
        lines += class_lines(each)
    for name, choices in aliases.items():
        lines += alias_lines(name, choices)
    return "\n".join(lines)


def names(text):
    """Returns the names of functions and classes, as pages write them, with their headings."""
    classes, aliases = parse(text)
    found = {}
    for each in classes:
        found[each.name] = each.name.removeprefix("orrery.")
        for match, _comment in each.functions:
            owner = match[1] if match[1].islower() else snake(match[1])
            title = f"{owner}{match[2]}{match[3]}"
            found[title] = f"{title}({match[4]})"
    found.update((name, name.removeprefix("orrery.")) for name in aliases)
    return found
