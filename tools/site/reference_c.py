"""The C reference, as Markdown, made from include/orrery.h: every declaration, below its comment.

The header is read by paragraphs: a comment, the declarations that follow it up to the next blank line, and for a comment that begins
with a rule, the title of a section.  Comments are plain text with a little form: paragraphs, lists with `-`, errors as `-ENAME   why`,
and code, which is indented by five.
"""
import re

RULE = re.compile(r"^ ?-{20,}$")


def paragraphs(text):
    """Returns the header in pieces: (comment lines or None, code lines), in order."""
    pieces, comment, code = [], None, []
    depth, inside = 0, False

    def finish():
        nonlocal comment, code
        while comment and not comment[0]:
            comment.pop(0)
        if comment is not None or any(line.strip() for line in code):
            pieces.append((comment, code))
        comment, code = None, []

    for line in text.split("\n"):
        if inside:
            ends = line.rstrip().endswith("*/")
            body = line.rstrip().removesuffix("*/").rstrip()
            comment.append(re.sub(r"^ \* ?", "", body) if body.strip() not in ("", "*") else "")
            inside = not ends
        elif depth == 0 and line.startswith("/*"):
            finish()
            if line.rstrip().endswith("*/"):
                comment = [line[2:].rstrip().removesuffix("*/").strip()]
            else:
                comment, inside = [line[2:].strip()], True
        elif depth == 0 and not line.strip():
            finish()
        else:
            depth += line.count("{") - line.count("}")
            code.append(line)
    finish()
    return pieces


def statements(code):
    """Splits a piece of code at its outermost semicolons and braces."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(code), flags=re.S)
    statement, depth = "", 0
    for line in text.split("\n"):
        if line.startswith("#"):
            yield line
            continue
        for c in line + " ":
            depth += (c in "{(") - (c in "})")
            statement += c
            if depth == 0 and c == ";":
                yield " ".join(statement.split())
                statement = ""
    if statement.strip():
        yield " ".join(statement.split())


def defined(text):
    """Returns the structs with a body: a declaration without a body is not listed."""
    return set(re.findall(r"^(struct orr_\w+) \{", text, flags=re.M))


def declared(code, elsewhere):
    """Returns what a piece of code declares, in order, without structs that are defined elsewhere."""
    found = []
    for statement in statements(code):
        match = (re.match(r"#define (ORR_\w+)", statement)
                 or re.match(r"((?:struct|enum|union) orr_\w+) ?[{;]", statement)
                 or re.match(r"typedef .*?\b(orr_\w+) ?[(;]", statement)
                 or re.match(r"[^{=]*?\b(orr_\w+)\(", statement))
        if match and match[1] not in found and statement.rstrip(";") not in elsewhere:
            found.append(match[1])
    return found


def anchor(name):
    return name.lower().replace(" ", "-")


def marked(text):
    """Escapes the text of a comment for Markdown, with the names of the API as code."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        plain = re.sub(r"(?<!\w)([<*_])", r"\\\1", parts[i])
        parts[i] = re.sub(r"\b(?:(?:struct|enum) )?(?:orr_\w+(?:\(\))?|ORR_[A-Z_]+)", r"`\g<0>`", plain)
    return "`".join(parts)


def prose(lines):
    """Returns a comment as Markdown."""
    out, errors = [], []

    def flush():
        if errors:
            out.extend(["", "| error | |", "| --- | --- |"])
            out.extend(f"| {', '.join(f'`{e}`' for e in names)} | {marked(why).replace('|', chr(92) + '|')} |" for names, why in errors)
            out.append("")
            errors.clear()

    block = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        error = re.match(r"\s+(-?E[A-Z0-9]+(?:, -?E[A-Z0-9]+)*)\s*(.*)", line)
        if block and line.strip() and indent >= 4:
            out.append(line[4:])
            continue
        if block:
            out.extend(["```", ""])
            block = False
        if error and indent >= 2:
            errors.append((error[1].split(", "), error[2]))
        elif errors and indent >= 4 and line.strip():
            errors[-1] = (errors[-1][0], f"{errors[-1][1]} {line.strip()}")
        elif errors and indent >= 2 and line.strip():
            errors.append(([], line.strip()))
        elif indent >= 4 and line.strip() and (not out or not out[-1].strip()):
            flush()
            out.extend(["```c", line[4:]])
            block = True
        else:
            flush()
            listed = re.match(r"\s*(- .*)", line)
            if listed and out and out[-1].strip() and not out[-1].lstrip().startswith("- ") and not out[-1].startswith("  "):
                out.append("")
            out.append(marked(listed[1] if listed else ("  " if indent else "") + line.strip()))
    if block:
        out.append("```")
    flush()
    return re.sub(r"(\| )\| ", r"\1 | ", "\n".join(out)).strip()


def clean(code):
    return [re.sub(r"^ORR_API ", "", line) for line in code]


def body(text):
    """Returns the header without the parts for C++ and the preprocessor."""
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    return re.sub(r"^#(?:ifndef|endif|include|define ORRERY_H|define ORR_API).*\n", "", text, flags=re.M)


def item(comment, code, elsewhere):
    """Returns a declaration below its comment, or a comment alone."""
    code = clean(code)
    names = declared(code, elsewhere)
    if not names:
        return [prose(comment), ""] if comment else []
    lines = [f'<a id="{anchor(name)}"></a>' for name in names[:-1]]
    lines += ["", "### " + ", ".join(f"`{name}`" for name in names) + f" {{#{anchor(names[-1])}}}", ""]
    if comment:
        lines += [prose(comment), ""]
    return [*lines, "```c", *code, "```", ""]


def reference(text):
    lines = ["# C reference", "", "The whole public C API, made from `include/orrery.h`.", ""]
    elsewhere = defined(text)
    for comment, code in paragraphs(body(text)):
        if comment and comment[0].startswith("orrery.h:"):
            about = [line for line in comment[1:] if "SPDX" not in line]
            lines += ["## Overview", "", re.sub(r"^([A-Z][a-z]+)$", r"### \1", prose(about), flags=re.M), ""]
        elif comment and RULE.match(comment[0]):
            lines += [f"## {comment[1].strip()}", "", prose(comment[2:]), ""]
            lines += item(None, code, elsewhere)
        else:
            lines += item(comment, code, elsewhere)
    return "\n".join(lines)


def names(text):
    """Returns the declared names, as pages write them, with their anchors."""
    found = {}
    for _, code in paragraphs(body(text)):
        for name in declared(clean(code), defined(text)):
            found[name] = anchor(name)
            found.setdefault(name.split()[-1], anchor(name))
    return found
